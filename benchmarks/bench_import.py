"""What does starting cost, as a whole process and beside what it stands on?

Modules are compiled before, as they are where a package is installed. The first lines are what
Python and NumPy cost by themselves; nothing of ours can be faster than them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import Report, duration

PYTHON = "python alone"
FIRST = "import tensorferry as ferry, numpy; "
PROGRAMS = {
    PYTHON: "pass",
    "import numpy": "import numpy",
    "import numpy, ml_dtypes": "import numpy, ml_dtypes",
    "import tensorferry": "import tensorferry",
    "tensorferry, first dumps": FIRST + "ferry.dumps(numpy.zeros(3))",
    "tensorferry, first dumps and loads": FIRST + "ferry.loads(ferry.dumps(numpy.zeros(3)))",
    "import click": "import click",
    "import tensorflow": "import tensorflow",
}
FERRY = str(Path(sys.executable).with_name("ferry"))
ROUNDS = 15


def main() -> None:
    commands = {name: [sys.executable, "-c", program] for name, program in PROGRAMS.items()}
    commands["ferry --version"] = [FERRY, "--version"]
    commands["ferry --help"] = [FERRY, "--help"]
    times = dict.fromkeys(commands, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for turn in range(ROUNDS):
            for name, command in commands.items():
                if name == "import tensorflow" and turn > 2:
                    continue
                start = time.perf_counter()
                subprocess.run(
                    command,
                    check=True,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                times[name] = min(times[name], time.perf_counter() - start)
    report = Report("A process that starts and ends: the shortest of several, taking turns")
    alone, base = times[PYTHON], times["import numpy, ml_dtypes"]
    for name, seconds in times.items():
        report.add(
            process=name,
            time=duration(seconds),
            more_than_python=duration(max(seconds - alone, 1e-9)),
            to_python=seconds / alone,
            to_numpy_and_ml_dtypes=seconds / base,
        )
    report.finish("import")


if __name__ == "__main__":
    main()
