"""How long does the command take to start, beside importing NumPy?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import Report, duration

import tensorferry as ferry

ROUNDS = 15


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        npy, records = Path(folder, "a.npy"), Path(folder, "a.tfrecord")
        ferry.save(np.zeros((3, 4), np.float32), npy)
        with ferry.writer(records) as out:
            out.write_batch({"id": np.arange(100), "x": np.zeros((100, 3), np.float32)})
        command = [sys.executable, "-m", "tensorferry"]
        processes = {
            "import numpy": [sys.executable, "-c", "import numpy"],
            "ferry --help": [*command, "--help"],
            "ferry formats": [*command, "formats"],
            "ferry info a.npy": [*command, "info", str(npy)],
            "ferry info a.tfrecord": [*command, "info", str(records)],
            "ferry head a.tfrecord": [*command, "head", str(records)],
        }
        # As it is installed: compiled once, not in every process.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        times = dict.fromkeys(processes, float("inf"))
        for _ in range(ROUNDS):
            for name, process in processes.items():
                start = time.perf_counter()
                subprocess.run(process, check=True, env=environment, stdout=subprocess.DEVNULL)
                times[name] = min(times[name], time.perf_counter() - start)
    report = Report("The command from start to end: the shortest of several runs, taking turns")
    for name, seconds in times.items():
        report.add(process=name, time=duration(seconds), to_numpy=seconds / times["import numpy"])
    report.finish("command")


if __name__ == "__main__":
    main()
