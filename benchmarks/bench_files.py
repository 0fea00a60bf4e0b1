"""How fast are a gigabyte of tensors saved and loaded, beside safetensors, NumPy, h5py and others?

64 tensors of float32, 1 GB in all, in every format, on local disk and without waiting for it
(durable=False) unless said; what was loaded is compared before anything is timed. The raw row is
one `writev` of the same buffers into a file of the same kind: no writer can be much faster.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import safetensors.numpy
from measure import Report, best, duration

import tensorferry as ferry

TENSORS = 64
SIZE = 1 << 30


def make() -> dict[str, Any]:
    """Weights as models have them: normal, of a few significant bits, so that deflate has work."""
    generator = np.random.default_rng(0)
    count = SIZE // TENSORS // 4
    weights = {}
    for index in range(TENSORS):
        values = generator.standard_normal(count, dtype=np.float32)
        weights[f"layer_{index:02}/kernel"] = values.astype(np.float16).astype(np.float32)
    return weights


def write_raw(path: str, data: dict[str, Any]) -> None:
    """The buffers and nothing else, into a new file that replaces the old one as ours does."""
    temporary = f"{path}.tmp"
    old = os.open(path, os.O_RDONLY | os.O_CREAT)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    views = [memoryview(array).cast("B") for array in data.values()]
    while views:
        done = os.writev(descriptor, views[:1024])
        while views and done >= len(views[0]):
            done -= len(views.pop(0))
        if views and done:
            views[0] = views[0][done:]
    os.close(descriptor)
    os.replace(temporary, path)
    threading.Thread(target=os.close, args=(old,)).start()  # which frees it


def write_h5py(path: str, data: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in data.items():
            file[name] = array


def read_h5py(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def write_pickle(path: str, data: dict[str, Any]) -> None:
    with open(path, "wb") as file:
        pickle.dump(data, file, protocol=5)


def read_pickle(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)


def write_arrow(path: str, data: dict[str, Any]) -> None:
    table = pa.table({name: pa.array(array) for name, array in data.items()})
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_arrow(path: str) -> dict[str, Any]:
    with pa.memory_map(path) as source:
        table = pa.ipc.open_file(source).read_all()
    return {name: table[name].chunk(0).to_numpy() for name in table.column_names}


Writer = Callable[[], Any]


def report_times(report: Report, work: str, times: dict[str, float], base: str) -> None:
    for name, seconds in times.items():
        report.add(
            work=work,
            by=name,
            time=duration(seconds),
            rate=f"{SIZE / seconds / 1e9:.2f} GB/s" if seconds > 0.02 else "lazily",
            ratio=seconds / times[base],
        )


def bench_writing(report: Report, folder: Path, data: dict[str, Any]) -> None:
    def path(name: str) -> str:
        return str(folder / name)

    writers: dict[str, Writer] = {
        "raw writev": lambda: write_raw(path("raw.bin"), data),
        "tensorferry, safetensors": lambda: ferry.save(
            data, path("ours.safetensors"), durable=False
        ),
        "tensorferry, npz": lambda: ferry.save(data, path("ours.npz"), durable=False),
        "tensorferry, arrow": lambda: ferry.save(data, path("ours.arrow"), durable=False),
        "safetensors": lambda: safetensors.numpy.save_file(data, path("theirs.safetensors")),
        "np.savez": lambda: np.savez(path("theirs.npz"), **data),
        "h5py": lambda: write_h5py(path("theirs.h5"), data),
        "pickle": lambda: write_pickle(path("theirs.pickle"), data),
        "pyarrow": lambda: write_arrow(path("theirs.arrow"), data),
    }
    for write in writers.values():
        write()
    ours = Path(path("ours.safetensors")).read_bytes()
    assert ours == Path(path("theirs.safetensors")).read_bytes()
    # What others left for the disk to do slows down whoever comes next.
    times = best(writers, seconds=3, settle=os.sync)
    report_times(report, "write 1 GB", times, "tensorferry, safetensors")

    durable: dict[str, Writer] = {
        "tensorferry, durable": lambda: ferry.save(data, path("durable.safetensors")),
        "tensorferry, not durable": lambda: ferry.save(
            data, path("durable.safetensors"), durable=False
        ),
    }
    times = best(durable, seconds=1)
    report_times(report, "what fsync costs", times, "tensorferry, not durable")


def check(found: Any, data: dict[str, Any]) -> None:
    assert set(found) == set(data)
    for name in data:
        assert np.array_equal(found[name], data[name]), name


def bench_reading(report: Report, folder: Path, data: dict[str, Any]) -> None:
    def path(name: str) -> str:
        return str(folder / name)

    readers: dict[str, Callable[[], Any]] = {
        "tensorferry, safetensors": lambda: ferry.load(path("ours.safetensors")),
        "tensorferry, npz, verified": lambda: ferry.load(path("ours.npz")),
        "tensorferry, npz": lambda: ferry.load(path("ours.npz"), verify=False),
        "tensorferry, arrow": lambda: ferry.load(path("ours.arrow"), verify=False),
        "safetensors": lambda: safetensors.numpy.load_file(path("theirs.safetensors")),
        "np.load": lambda: dict(np.load(path("theirs.npz"))),
        "h5py": lambda: read_h5py(path("theirs.h5")),
        "pickle": lambda: read_pickle(path("theirs.pickle")),
        "pyarrow, mapped": lambda: read_arrow(path("theirs.arrow")),
    }
    for read in readers.values():
        check(read(), data)
    report_times(report, "load all", best(readers, seconds=2), "tensorferry, safetensors")

    def touch(read: Callable[[], Any]) -> Callable[[], float]:
        return lambda: sum(float(array[::1024].sum()) for array in read().values())

    touched = {name: touch(readers[name]) for name in ("tensorferry, safetensors", "safetensors")}
    report_times(
        report, "load all, look at each page", best(touched, seconds=2), "tensorferry, safetensors"
    )

    name = next(reversed(data))

    def one() -> Any:
        with ferry.open(path("ours.safetensors")) as bundle:
            return bundle[name]

    def one_theirs() -> Any:
        with safetensors.safe_open(path("ours.safetensors"), "np") as file:
            return file.get_tensor(name)

    times = best({"tensorferry": one, "safetensors": one_theirs}, seconds=1)
    report_times(report, "open, take one tensor", times, "tensorferry")


def bench_deflate(report: Report, folder: Path, data: dict[str, Any]) -> None:
    some = dict(list(data.items())[:2])

    def path(name: str) -> str:
        return str(folder / name)

    writers: dict[str, Writer] = {
        "tensorferry": lambda: ferry.save(
            some, path("ours_z.npz"), compression="deflate", durable=False
        ),
        "np.savez_compressed": lambda: np.savez_compressed(path("theirs_z.npz"), **some),
    }
    times = best(writers, seconds=1)
    check(ferry.load(path("theirs_z.npz")), some)
    check(dict(np.load(path("ours_z.npz"))), some)
    for name, seconds in times.items():
        report.add(
            work="deflated npz, 32 MB",
            by=name,
            time=duration(seconds),
            rate=f"{SIZE / 32 / seconds / 1e9:.2f} GB/s",
            ratio=seconds / times["tensorferry"],
        )
    ratio = os.path.getsize(path("ours_z.npz")) / os.path.getsize(path("theirs_z.npz"))
    report.notes.append(f"deflated: ours takes {ratio:.2f} times the size of NumPy's")
    readers: dict[str, Callable[[], Any]] = {
        "tensorferry": lambda: ferry.load(path("theirs_z.npz")),
        "np.load": lambda: dict(np.load(path("theirs_z.npz"))),
    }
    times = best(readers, seconds=1)
    for name, seconds in times.items():
        report.add(
            work="inflate npz, 32 MB",
            by=name,
            time=duration(seconds),
            rate=f"{SIZE / 32 / seconds / 1e9:.2f} GB/s",
            ratio=seconds / times["tensorferry"],
        )


MEMORY = """
import resource, sys
import numpy as np
import tensorferry as ferry
source, target, mode = sys.argv[1:]
if mode == "save":
    data = {f"t{i}": np.ones((1 << 24) // 4, np.float32) for i in range(64)}
else:
    data = ferry.open(source)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ferry.save(data, target, durable=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def anonymous_peak(command: list[str]) -> float:
    """The most memory in MB that a process has of its own: pages of files are the system's."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        peak = max(
            peak, *(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line), 0
        )
        time.sleep(0.002)
    assert process.wait() == 0
    return peak / 1024


def bench_memory(report: Report, folder: Path) -> None:
    source = str(folder / "ours.safetensors")
    command = [sys.executable, "-c", MEMORY, source]
    held = SIZE / (1 << 20)
    base = anonymous_peak([sys.executable, "-c", "import numpy, tensorferry.files.open"])
    for work, mode, target, data in (
        ("save 1 GB as safetensors", "save", "m.safetensors", held),
        ("save 1 GB as npz", "save", "m.npz", held),
        ("save 1 GB as arrow", "save", "m.arrow", held),
        ("safetensors to npz", "convert", "c.npz", 0),
        ("safetensors to safetensors", "convert", "c.safetensors", 0),
    ):
        peak = anonymous_peak([*command, str(folder / target), mode])
        beyond = f"{peak - base - data:.0f} MB beyond the data"
        report.add(work=work, by="tensorferry", time="", rate=beyond, ratio="")
        os.unlink(folder / target)


def main() -> None:
    report = Report("Files of tensors: time, and how many times longer than ours")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make()
        bench_writing(report, folder, data)
        bench_reading(report, folder, data)
        bench_deflate(report, folder, data)
        bench_memory(report, folder)
    report.notes.append(
        "64 tensors of 16 MB, in the page cache; lazily loaded arrays are views of the mapped file."
    )
    report.finish("files")


if __name__ == "__main__":
    main()
