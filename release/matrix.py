"""The wheel on every Python of this machine, with the lowest and the newest dependencies.

    make matrix                                     every Python from 3.11 on that is found
    make matrix PYTHONS="3.12 /opt/py/bin/python"   these, by version or path
    make matrix TENSORFLOW=1                        all tests, too, with TensorFlow
    make matrix TESTS="tests/formats tests/rows"    only some of the tests
    make matrix RESUME=1                            what has not passed yet, with the same wheels

For each Python the wheel is built and installed into environments of its own: one with the lowest
versions that `pyproject.toml` allows and that have a wheel for this Python, one with the newest.
The tests run in an empty folder, so they see the installed package and no source. Frameworks are
not installed, and tests that import one are skipped: see `FERRY_WITHOUT` in tests/conftest.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pythons import MINORS, find_python, minor_of, version_of

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/matrix"
EXTRAS = ("arrow", "cloud", "keras", "sql")
# Packages that the group `matrix` does not bring, as the workflow for wheels has it, too.
_WHEELS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
WITHOUT = _WHEELS["test-environment"]["FERRY_WITHOUT"]
# What looks at the sources, drives a browser, or kills writers for minutes is the same everywhere;
# examples in docs and docstrings use all frameworks.
ELSEWHERE = (
    *("faults", "view", "test_docs.py", "test_docstrings.py", "test_house.py", "test_layout.py"),
    *("test_release.py", "test_types.py", "test_wheel.py"),
)
# So are a parser of ours on thousands of damaged files, kills, and what memory is needed at most:
# a third of the time.
SLOW = (
    *("flipped", "flips", "bytes_changed", "bytes_replaced", "random_damage", "short_entries"),
    *("killed", "bomb", "bounded_memory", "test_peak", "a_huge_count", "long_string"),
)
PACKAGES = ("numpy", "pyarrow", "ml-dtypes")
KINDS = ("lowest", "newest", "tensorflow")


@dataclass(frozen=True, slots=True)
class Row:
    """What came out of one environment, which keeps it as `row.json`."""

    python: str
    dependencies: str
    versions: str
    wheel: str
    commit: str
    result: str
    seconds: float
    passed: bool

    def __str__(self) -> str:
        return (
            f"{self.python:<10}{self.dependencies:<14}{self.versions:<24}{self.wheel:<14}"
            f"{self.commit:<16}{self.result} ({self.seconds:.0f} s)"
        )


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


def find_commit() -> str:
    """The commit that is tested, and whether files have changed since."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    run = subprocess.run(describe, capture_output=True, text=True, cwd=ROOT, check=False)
    return run.stdout.strip() or "unknown"


def build_wheel(python: Path) -> Path:
    """The wheel for a Python: one for the stable ABI serves all from 3.12 on."""
    target = BUILD / "wheels" / ("abi3" if minor_of(python) >= 12 else version_of(python))
    if not target.exists():
        uv("build", "--wheel", "--python", python, "--out-dir", target)
    (wheel,) = target.glob("*.whl")
    return wheel


def make_environment(python: Path, wheel: Path, folder: Path, kind: str) -> Path:
    """An environment with the wheel and what its tests need; gives its interpreter."""
    uv("venv", "--clear", "--python", python, folder)
    inside = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    group = "test" if kind == "tensorflow" else "matrix"
    extras = [f"--extra={name}" for name in EXTRAS]
    resolution = "lowest-direct" if kind == "lowest" else "highest"
    what: list[str | Path] = ["--python", inside, "-r", "pyproject.toml", *extras, "--group", group]
    uv("pip", "install", *what, "--resolution", resolution, "--only-binary", ":all:")
    alone = ["--group", "test-alone"] if kind == "tensorflow" else []
    uv("pip", "install", "--python", inside, "--no-deps", wheel, *alone)
    return inside


def run_tests(python: Path, tests: Iterable[str], *, tensorflow: bool) -> tuple[str, bool]:
    """Runs tests from the installed package; gives pytest's last line, and whether all is well.

    What pytest says is in `tests.log` of the environment, line by line as it comes.
    """
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "matrix"}
    if not tensorflow:
        environment["FERRY_WITHOUT"] = WITHOUT
    environment.pop("PYTHONPATH", None)
    # Tests start hundreds of processes: modules are compiled once, as in any installed package.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ignored = [f"--ignore={ROOT / 'tests' / name}" for name in ELSEWHERE]
    chosen = " and ".join(f"not {word}" for word in SLOW)
    options = ["-v", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "-k", chosen]
    options += ["-n", "2", "--dist", "loadfile"]
    log = python.parent.parent / "tests.log"
    with tempfile.TemporaryDirectory() as empty, log.open("w") as output:
        run = subprocess.run(
            [python, "-m", "pytest", *options, *ignored, *(str(ROOT / test) for test in tests)],
            cwd=empty,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = log.read_text().strip().splitlines() or ["nothing ran"]
    if run.returncode:
        print("\n".join(lines[-40:]), file=sys.stderr)
    return re.sub(r" in [\d.]+s.*|=+ ?", "", lines[-1]), run.returncode == 0


def try_out(python: Path, tests: Iterable[str], kind: str, *, resume: bool) -> Row:
    """One line of the table."""
    folder = BUILD / f"{version_of(python)}-{kind}"
    kept = folder / "row.json"
    if resume and kept.exists():
        return Row(**json.loads(kept.read_text()))
    started, commit = time.monotonic(), find_commit()
    wheel = build_wheel(python)
    inside = make_environment(python, wheel, folder, kind)
    program = f"from importlib.metadata import version as v; print(*map(v, {PACKAGES}))"
    listed = subprocess.run([inside, "-c", program], check=True, capture_output=True, text=True)
    result, passed = run_tests(inside, tests, tensorflow=kind == "tensorflow")
    tag = "-".join(wheel.stem.split("-")[2:4])
    seconds = time.monotonic() - started
    versions = listed.stdout.strip()
    row = Row(version_of(python), kind, versions, tag, commit, result, seconds, passed)
    if passed:
        kept.write_text(json.dumps(asdict(row)))
    return row


def main() -> int:
    """Prints the table; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="*", help="versions or paths of interpreters")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="paths of tests")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS[:2], help="dependencies")
    parser.add_argument("--resume", action="store_true", help="only what has not passed yet")
    arguments = parser.parse_args()
    if not arguments.resume:
        shutil.rmtree(BUILD, ignore_errors=True)
    rows = []
    head = f"{'python':<10}{'dependencies':<14}{' '.join(PACKAGES):<24}{'wheel':<14}{'commit':<16}"
    print(f"{head}tests", flush=True)
    for python in find_pythons(arguments.pythons):
        for kind in arguments.kinds:
            if kind == "tensorflow" and minor_of(python) >= 14:
                continue
            rows.append(try_out(python, arguments.tests, kind, resume=arguments.resume))
            print(rows[-1], flush=True)
    return 0 if rows and all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
