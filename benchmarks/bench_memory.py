"""How much memory does reading TFRecords in batches take, and how does time grow with the file?

Each file is read in a fresh process, which reports its peak memory beyond the start.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench_tfrecord import columns
from measure import Report, duration

import tensorferry as ferry

PROGRAM = """
import resource, sys, time
import tensorferry as ferry

def peak():
    # Pages of the file that are mapped count as resident: what the process itself holds does not
    # include them.
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024

with ferry.open(sys.argv[1]) as records:
    next(records.batches(1024))
    start, highest, rows, began = peak(), 0, 0, time.perf_counter()
    for number, batch in enumerate(records.batches(1024)):
        rows += len(batch["id"])
        if number % 64 == 0:
            highest = max(highest, peak())
    print(rows, highest - start, time.perf_counter() - began)
"""

SIZES = {"100 MB": 100, "500 MB": 500, "2 GB": 2000}


def main() -> None:
    report = Report("Reading a TFRecord file in batches of 1024: memory beyond the start, and time")
    data = columns(50_000)
    for compression in (None, "gzip"):
        for label, megabytes in SIZES.items():
            if compression and megabytes > 500:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "data.tfrecord"
                parts = megabytes * 1_000_000 // 11_500_000
                with ferry.writer(path, durable=False, compression=compression) as out:
                    for _ in range(parts):
                        out.write_batch(data)
                command = [sys.executable, "-c", PROGRAM, str(path)]
                printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                rows, memory, seconds = printed.split()
                assert int(rows) == parts * 50_000
                report.add(
                    file=f"{label}{' gzip' if compression else ''}",
                    memory=f"{int(memory) / 1e6:.1f} MB",
                    time=duration(float(seconds)),
                    rate=f"{int(rows) / float(seconds) / 1e6:.2f} M records/s",
                )
    report.finish("memory")


if __name__ == "__main__":
    main()
