"""What does importing cost, as a whole process and beside what it stands on?"""

from __future__ import annotations

import subprocess
import sys
import time

from measure import Report, duration

PROGRAMS = {
    "python alone": "pass",
    "import numpy, ml_dtypes": "import numpy, ml_dtypes",
    "import tensorferry": "import tensorferry",
    "tensorferry, first dumps and loads": (
        "import tensorferry as ferry, numpy; ferry.loads(ferry.dumps(numpy.zeros(3)))"
    ),
    "import tensorflow": "import tensorflow",
}
ROUNDS = 15


def main() -> None:
    times = dict.fromkeys(PROGRAMS, float("inf"))
    for turn in range(ROUNDS):
        for name, program in PROGRAMS.items():
            if name == "import tensorflow" and turn > 2:
                continue
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, stderr=subprocess.DEVNULL)
            times[name] = min(times[name], time.perf_counter() - start)
    report = Report("A process that imports and ends: the shortest of several, taking turns")
    base = times["import numpy, ml_dtypes"]
    for name, seconds in times.items():
        report.add(process=name, time=duration(seconds), to_numpy_and_ml_dtypes=seconds / base)
    report.finish("import")


if __name__ == "__main__":
    main()
