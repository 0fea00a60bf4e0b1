"""The Pythons of this machine, by version or path.

python release/pythons.py 3.11 3.12     one path a line; none for a version that is not found
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MINORS = range(11, 15)


def find_python(name: str) -> Path | None:
    """An interpreter by its path or version: on PATH, or among those of pyenv."""
    if os.path.dirname(name):
        return Path(name) if os.path.isfile(name) else None
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    numbered = sorted(
        pyenv.glob(f"{name}.*/bin/python"),
        key=lambda path: [int(part) for part in re.findall(r"\d+", path.parts[-3])],
    )
    on_path = shutil.which(f"python{name}")
    for path in [*([Path(on_path)] if on_path else []), *reversed(numbered)]:
        # Of a version that is not chosen, pyenv has a program on PATH that only complains.
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


def version_of(python: Path) -> str:
    """The version of an interpreter, such as 3.12.1."""
    program = "import platform; print(platform.python_version())"
    run = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def minor_of(python: Path) -> int:
    """The second number of its version."""
    return int(version_of(python).split(".")[1])


if __name__ == "__main__":
    for path in filter(None, map(find_python, sys.argv[1:])):
        print(path)
