"""The wheel on every Python of this machine, with the lowest and the newest dependencies.

    make matrix                                     every Python from 3.11 on that is found
    make matrix PYTHONS="3.12 /opt/py/bin/python"   these, by version or path
    make matrix TENSORFLOW=1                        all tests, too, with TensorFlow
    make matrix TESTS="tests/formats tests/rows"    only some of the tests

For each Python the wheel is built and installed into environments of its own: one with the lowest
versions that `pyproject.toml` allows and that have a wheel for this Python, one with the newest.
The tests run in an empty folder, so they see the installed package and no source. Frameworks are
not installed, and tests that import one are skipped: see `FERRY_WITHOUT` in tests/conftest.py.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pythons import MINORS, find_python, minor_of, version_of

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/matrix"
EXTRAS = ("arrow", "cloud", "keras", "sql")
# Packages that no group of `matrix` brings; tests that import one are left out.
WITHOUT = (
    *("tensorflow", "keras", "tf_keras", "tensorflow_serving", "tensorflow_datasets", "torch"),
    *("torchdata", "jax", "grain", "ray", "playwright", "pandas", "polars", "moto"),
    *("grpc", "importlinter", "mypy", "google"),
)
# What looks at the sources, drives a browser, or kills writers for minutes is the same everywhere.
ELSEWHERE = (
    *("faults", "view", "test_docs.py", "test_house.py", "test_layout.py", "test_release.py"),
    *("test_types.py", "test_wheel.py"),
)
PACKAGES = ("numpy", "pyarrow", "ml-dtypes")


@dataclass(frozen=True, slots=True)
class Row:
    """What came out of one environment."""

    python: str
    dependencies: str
    versions: str
    wheel: str
    result: str
    seconds: float
    passed: bool


def find_pythons(wanted: Iterable[str]) -> Iterator[Path]:
    """The interpreters to test: the wanted ones, or one of each minor version that is found."""
    for name in wanted or [f"3.{minor}" for minor in MINORS]:
        found = find_python(name)
        if found is not None:
            yield found
        elif wanted:
            raise SystemExit(f"no Python {name} is found")


def uv(*arguments: str | Path) -> None:
    """Runs uv, whose cache makes many environments cheap."""
    subprocess.run([sys.executable, "-m", "uv", "-q", *map(str, arguments)], check=True, cwd=ROOT)


def build_wheel(python: Path) -> Path:
    """The wheel for a Python: one for the stable ABI serves all from 3.12 on."""
    target = BUILD / "wheels" / version_of(python)
    shared = BUILD / "wheels/abi3"
    for wheel in shared.glob("*-abi3-*.whl"):
        if minor_of(python) >= 12:
            return wheel
    shutil.rmtree(target, ignore_errors=True)
    uv("build", "--wheel", "--python", python, "--out-dir", target)
    (wheel,) = target.glob("*.whl")
    if "-abi3-" in wheel.name:
        shared.mkdir(parents=True)
        wheel = wheel.rename(shared / wheel.name)
    return wheel


def make_environment(python: Path, wheel: Path, *, lowest: bool, tensorflow: bool) -> Path:
    """An environment with the wheel and what its tests need; gives its interpreter."""
    kind = "lowest" if lowest else "tensorflow" if tensorflow else "newest"
    folder = BUILD / f"{version_of(python)}-{kind}"
    uv("venv", "--clear", "--python", python, folder)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    group = "test" if tensorflow else "matrix"
    extras = [f"--extra={name}" for name in EXTRAS]
    resolution = "lowest-direct" if lowest else "highest"
    what: list[str | Path] = ["--python", inside, "-r", "pyproject.toml", *extras, "--group", group]
    uv("pip", "install", *what, "--resolution", resolution, "--only-binary", ":all:")
    uv("pip", "install", "--python", inside, "--no-deps", wheel)
    return inside


def run_tests(python: Path, tests: Iterable[str], *, tensorflow: bool) -> tuple[str, bool]:
    """Runs tests from the installed package; gives pytest's last line, and whether all is well."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "matrix"}
    if not tensorflow:
        environment["FERRY_WITHOUT"] = ",".join(WITHOUT)
    environment.pop("PYTHONPATH", None)
    ignored = [f"--ignore={ROOT / 'tests' / name}" for name in ELSEWHERE]
    options = ["-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *ignored]
    with tempfile.TemporaryDirectory() as empty:
        run = subprocess.run(
            [python, "-m", "pytest", *options, *(str(ROOT / test) for test in tests)],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    (python.parent.parent / "tests.log").write_text(run.stdout + run.stderr)
    lines = run.stdout.strip().splitlines() or ["nothing ran"]
    if run.returncode:
        print("\n".join(lines[-40:]), run.stderr, file=sys.stderr)
    return re.sub(r" in [\d.]+s.*|=+ ?", "", lines[-1]), run.returncode == 0


def try_out(python: Path, wheel: Path, arguments: argparse.Namespace, kind: str) -> Row:
    """One line of the table."""
    started = time.monotonic()
    tensorflow = kind == "tensorflow"
    inside = make_environment(python, wheel, lowest=kind == "lowest", tensorflow=tensorflow)
    program = f"from importlib.metadata import version as v; print(*map(v, {PACKAGES}))"
    listed = subprocess.run([inside, "-c", program], check=True, capture_output=True, text=True)
    result, passed = run_tests(inside, arguments.tests, tensorflow=tensorflow)
    tag = "-".join(wheel.stem.split("-")[2:4])
    versions = listed.stdout.strip()
    return Row(version_of(python), kind, versions, tag, result, time.monotonic() - started, passed)


def main() -> int:
    """Prints the table; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="*", help="versions or paths of interpreters")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="paths of tests")
    parser.add_argument("--tensorflow", action="store_true", help="also all tests, with TensorFlow")
    arguments = parser.parse_args()
    shutil.rmtree(BUILD / "wheels", ignore_errors=True)
    rows = []
    head = f"{'python':<10}{'dependencies':<14}{' '.join(PACKAGES):<24}{'wheel':<14}"
    print(f"{head}tests", flush=True)
    for python in find_pythons(arguments.pythons):
        wheel = build_wheel(python)
        kinds = ["lowest", "newest"]
        if arguments.tensorflow and minor_of(python) < 14:
            kinds.append("tensorflow")
        for kind in kinds:
            row = try_out(python, wheel, arguments, kind)
            rows.append(row)
            print(
                f"{row.python:<10}{row.dependencies:<14}{row.versions:<24}{row.wheel:<14}"
                f"{row.result} ({row.seconds:.0f} s)",
                flush=True,
            )
    return 0 if rows and all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
