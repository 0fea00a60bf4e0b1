"""Settings for all tests, and the oracle."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# A shell lets what it starts in the background ignore Ctrl-C, and so would the programs that tests
# start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Deterministic, so that a red run is red again; `HYPOTHESIS_PROFILE=search` looks further.
settings.register_profile(
    "test",
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "search", settings.get_profile("test"), max_examples=5000, derandomize=False
)
# The same properties on another Python or with other versions: few examples find what differs.
settings.register_profile("matrix", settings.get_profile("test"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))

ROOT = Path(__file__).parent.parent

# Files of others, which are no part of the project; what needs them is skipped where they are not.
CORPUS = Path(os.environ.get("TENSORFERRY_CORPUS", ROOT.parent / "shared/corpus"))

# Packages that are not there on purpose, as `make matrix` has it: a test that imports one of them
# is skipped. Without this list it fails.
WITHOUT = frozenset(filter(None, os.environ.get("FERRY_WITHOUT", "").split(",")))


def pytest_ignore_collect(collection_path):
    """Leaves out modules that import a package at their top which is not there on purpose."""
    if not WITHOUT or collection_path.suffix != ".py":
        return None
    found = re.findall(r"^(?:import|from) (\w+)", collection_path.read_text("utf-8"), re.MULTILINE)
    return True if WITHOUT.intersection(found) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Counts a test as skipped that asked for a package which is not there on purpose."""
    error = call.excinfo and call.excinfo.value
    # Our own error has Python's as its cause, or starts with the name.
    name = ""
    if isinstance(error, ImportError):
        cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        name = cause.name or str(error)
    if re.split(r"[. ]", name)[0] in WITHOUT:
        reason = f"without {name}"
        call.excinfo = pytest.CallInfo.from_call(lambda: pytest.skip(reason), call.when).excinfo


@pytest.fixture(scope="session")
def tf():
    """TensorFlow, which decides. Missing is a failure wherever it has a wheel."""
    if sys.version_info >= (3, 14):
        return pytest.importorskip("tensorflow")
    import tensorflow

    return tensorflow


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory):
    """Objects of stores are not cached in the home of whoever runs the tests."""
    os.environ["TENSORFERRY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, built from the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    build = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def empty_environment(wheel, tmp_path_factory):
    """The Python of an environment with the wheel, its base dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin/python")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python", python]
    subprocess.run([*pip, "install", str(wheel)], check=True)
    return python


@pytest.fixture(scope="session")
def s3_server():
    """A real S3 on loopback, for the whole run."""
    from servers import S3

    server = S3()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_server, monkeypatch):
    """An S3 that the environment names, empty, with a log of requests: see `servers.S3`."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.empty()
    s3_server.clear()
    return s3_server


@pytest.fixture(scope="session")
def ray_cluster(s3_server):
    """A Ray cluster of two nodes whose workers find the S3 on loopback: see `clusters`."""
    pytest.importorskip("ray")
    from clusters import RayCluster

    cluster = RayCluster(2, environment=s3_server.environment)
    yield cluster
    cluster.stop()
