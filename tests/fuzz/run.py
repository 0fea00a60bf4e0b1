"""Runs fuzz targets under atheris, libFuzzer for Python.

    python tests/fuzz/run.py TARGET [libFuzzer's options, as -runs=1000000]

What is found besides the corpus is kept under build/fuzz-python, as is an input that fails.
`make fuzz-python` runs all targets one after the other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import atheris

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "fuzz-python"


def main() -> None:
    """Runs one target."""
    name, *options = sys.argv[1:]
    # Formats are imported by the first file of theirs: each seed is read here, so that all modules
    # that read one are instrumented, and not only those that `targets` names.
    with atheris.instrument_imports(include=["tensorferry"]):
        import targets

        target = targets.TARGETS[name]
        for seed in sorted((HERE / "corpus" / name).iterdir()):
            targets.run(target, seed.read_bytes())
    kept = BUILD / "corpus" / name
    kept.mkdir(parents=True, exist_ok=True)
    defaults = ["-max_len=16384", "-timeout=120", f"-artifact_prefix={BUILD}/{name}-"]
    arguments = [sys.argv[0], *defaults, *options, str(kept), str(HERE / "corpus" / name)]
    atheris.Setup(arguments, lambda data: targets.run(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(HERE))
    main()
