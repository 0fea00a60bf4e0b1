"""How fast are checkpoints read and written, beside TensorFlow, safetensors and h5py?

1 GB in 64 tensors of float32, and 100,000 variables of four numbers each, on local disk and without
waiting for it (durable=False); what was read is compared before anything is timed, and so are the
bytes that were written. The last rows start a process that opens the file and lists what is in it.
"""

from __future__ import annotations

import filecmp
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import h5py
import numpy as np
import safetensors.numpy
import tensorflow as tf
from measure import Report, duration

import tensorferry as ferry
from tensorferry.formats.checkpoint import reader as checkpoint
from tensorferry.storage.place import Place

TENSORS = 64
SIZE = 1 << 30
MANY = 100_000
DATA = ".data-00000-of-00001"
SLOW = 5.0

Work = dict[str, Callable[[], Any]]


def best(work: Work, rounds: int, *, emptied: Path | None = None) -> dict[str, float]:
    """The shortest time of each; they take turns, and what takes very long has only one.

    Args:
        work: What to time.
        rounds: How often.
        emptied: A folder whose files are removed before each, and the disk is waited for: a new
            checkpoint usually has a new name.
    """
    times = dict.fromkeys(work, float("inf"))
    gc.disable()
    try:
        for _ in range(rounds):
            for name, function in work.items():
                if SLOW < times[name] < float("inf"):
                    continue
                if emptied is not None:
                    for path in emptied.iterdir():
                        path.unlink()
                    os.sync()
                start = time.perf_counter()
                result = function()
                times[name] = min(times[name], time.perf_counter() - start)
                del result
    finally:
        gc.enable()
    return times


def report_times(report: Report, work: str, times: dict[str, float]) -> None:
    first = next(iter(times.values()))
    for name, seconds in times.items():
        report.add(work=work, by=name, time=duration(seconds), ratio=seconds / first)


def save_theirs(prefix: str, tensors: dict[str, Any]) -> None:
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def save_h5py(path: str, data: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in data.items():
            file[name] = array


def save_ours(prefix: str, data: dict[str, Any]) -> None:
    checkpoint.save_tensors(data, prefix, durable=False, state=False)


def read_ours(prefix: str, *, verify: bool = True) -> dict[str, Any]:
    with checkpoint.open_checkpoint(Place(prefix), verify=verify) as opened:
        return {name: stored.read() for name, stored in opened.stored.items()}


def read_theirs(prefix: str) -> dict[str, Any]:
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def read_h5py(path: str, names: list[str]) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {name: file[name][()] for name in names}


def list_ours(prefix: str) -> dict[str, Any]:
    with checkpoint.open_checkpoint(Place(prefix)) as opened:
        return {name: stored.shape for name, stored in opened.stored.items()}


def list_public(prefix: str) -> dict[str, Any]:
    with ferry.open(prefix) as bundle:
        assert isinstance(bundle, ferry.Bundle)
        return {name: bundle.info[name].shape for name in bundle}


def list_theirs(prefix: str) -> dict[str, Any]:
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_dtype_map()
    return dict(reader.get_variable_to_shape_map())


def list_h5py(path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item.shape}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def list_safetensors(path: str) -> dict[str, Any]:
    with safetensors.safe_open(path, "np") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def check_values(found: dict[str, Any], data: dict[str, Any]) -> None:
    assert set(found) == set(data)
    assert all(np.array_equal(found[name], data[name]) for name in data)


def bench_gigabyte(report: Report, folder: Path) -> None:
    generator = np.random.default_rng(0)
    count = SIZE // TENSORS // 4
    data = {
        f"layer_{index:02}/kernel": generator.standard_normal(count, dtype=np.float32)
        for index in range(TENSORS)
    }
    tensors = {name: tf.constant(array) for name, array in data.items()}
    ours, theirs = str(folder / "ours"), str(folder / "theirs")
    plain, hdf = str(folder / "model.safetensors"), str(folder / "model.h5")
    writers: Work = {
        "tensorferry": lambda: save_ours(ours, data),
        "TensorFlow": lambda: save_theirs(theirs, tensors),
        "safetensors": lambda: safetensors.numpy.save_file(data, plain),
        "h5py": lambda: save_h5py(hdf, data),
    }
    times = best(writers, 4, emptied=folder)
    for write in writers.values():
        write()
    assert all(filecmp.cmp(ours + end, theirs + end, shallow=False) for end in (".index", DATA))
    report_times(report, "write 1 GB", times)
    readers: Work = {
        "tensorferry, lazily": lambda: read_ours(theirs, verify=False),
        "tensorferry, verified": lambda: read_ours(theirs),
        "TensorFlow, verified": lambda: read_theirs(theirs),
        "safetensors": lambda: safetensors.numpy.load_file(plain),
        "h5py": lambda: read_h5py(hdf, list(data)),
    }
    for read in readers.values():
        check_values(read(), data)
    report_times(report, "read 1 GB", best(readers, 4))
    listers: Work = {
        "tensorferry": lambda: list_ours(theirs),
        "tensorferry, ferry.open and every info": lambda: list_public(theirs),
        "TensorFlow": lambda: list_theirs(theirs),
        "safetensors": lambda: list_safetensors(plain),
        "h5py": lambda: list_h5py(hdf),
    }
    for show in listers.values():
        assert {name: tuple(shape) for name, shape in show().items()} == dict.fromkeys(
            data, (count,)
        )
    report_times(report, f"open and list {TENSORS}", best(listers, 200))
    bench_processes(report, theirs, plain, TENSORS)


def bench_many(report: Report, folder: Path) -> None:
    names = [f"layer_{index // 100}/block_{index % 100}/kernel" for index in range(MANY)]
    data = {name: np.full(4, index, np.float32) for index, name in enumerate(names)}
    tensors = {name: tf.constant(array) for name, array in data.items()}
    root = tf.train.Checkpoint(variables=[tf.Variable(tensor) for tensor in tensors.values()])
    ours, theirs = str(folder / "many"), str(folder / "many_theirs")
    plain, hdf = str(folder / "many.safetensors"), str(folder / "many.h5")

    def write_ours() -> None:
        checkpoint.remove(ours)
        save_ours(ours, data)

    writers: Work = {
        "tensorferry": write_ours,
        "TensorFlow, SaveV2": lambda: save_theirs(theirs, tensors),
        "TensorFlow, tf.train.Checkpoint": lambda: root.write(str(folder / "objects")),
        "safetensors": lambda: safetensors.numpy.save_file(data, plain),
        "h5py": lambda: save_h5py(hdf, data),
    }
    # TensorFlow prepares an operation of so many inputs when it is first run.
    once = best({"TensorFlow, SaveV2, first": writers["TensorFlow, SaveV2"]}, 1)
    times = best(writers, 3) | once
    assert all(filecmp.cmp(ours + end, theirs + end, shallow=False) for end in (".index", DATA))
    report_times(report, "write 100,000 variables", times)
    listers: Work = {
        "tensorferry": lambda: list_ours(theirs),
        "TensorFlow": lambda: list_theirs(theirs),
        "safetensors": lambda: list_safetensors(plain),
        "h5py": lambda: list_h5py(hdf),
    }
    for show in listers.values():
        assert {name: tuple(shape) for name, shape in show().items()} == dict.fromkeys(names, (4,))
    report_times(report, "open and list 100,000", best(listers, 4))
    tenth = str(folder / "tenth")
    save_ours(tenth, dict(list(data.items())[: MANY // 10]))
    small = best({"tensorferry": lambda: list_ours(tenth)}, 10)["tensorferry"]
    whole = best({"tensorferry": lambda: list_ours(ours)}, 5)["tensorferry"]
    report.notes.append(f"100,000 variables take {whole / small:.1f} times as long as 10,000.")
    bench_processes(report, theirs, plain, MANY)


PROGRAMS = {
    "tensorferry": """
import sys
import tensorferry
with tensorferry.open(sys.argv[1]) as bundle:
    print(len([bundle.info[name] for name in bundle]))""",
    "TensorFlow": """
import sys
import tensorflow as tf
print(len(tf.train.load_checkpoint(sys.argv[1]).get_variable_to_shape_map()))""",
    "safetensors": """
import sys
from safetensors import safe_open
with safe_open(sys.argv[2], "np") as file:
    print(len(file.keys()))""",
}


def bench_processes(report: Report, prefix: str, plain: str, count: int) -> None:
    # Without it, every process would compile all of its modules anew.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run(code: str) -> Callable[[], str]:
        command = [sys.executable, "-c", code, prefix, plain]
        return lambda: (
            subprocess.run(
                command, check=True, capture_output=True, text=True, env=environment
            ).stdout
        )

    programs: Work = {name: run(code) for name, code in PROGRAMS.items()}
    assert {program() for program in programs.values()} == {f"{count}\n"}
    report_times(report, f"a process that lists {count:,}", best(programs, 5))


def main() -> None:
    report = Report("Checkpoints: time, and how many times longer than ours")
    with tempfile.TemporaryDirectory() as name:
        bench_gigabyte(report, Path(name))
    with tempfile.TemporaryDirectory() as name:
        bench_many(report, Path(name))
    report.notes.append(
        "Files are in the page cache; lazily read arrays are views of the mapped file. "
        "Files that are written are new."
    )
    report.finish("checkpoint")


if __name__ == "__main__":
    main()
