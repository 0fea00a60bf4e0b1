"""How long do many small tensors take, and one large one, beside the libraries of their formats?

Each job is done with 1, 100 and 5,000 tensors of 8 floats; answers are compared before anything is
timed, of a listing the shapes. The ratio is the time of the other library divided by ours. Nothing
waits for the disk: the others do not either.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import h5py
import numpy as np
import safetensors.numpy
import safetensors.torch
import tensorflow as tf
import torch
from measure import Report, best, duration

import tensorferry as ferry

SIZES = (1, 100, 5000)
LARGE = 128 << 20


def main() -> None:
    report = Report("Many small tensors, and how many times longer the other library takes")
    with tempfile.TemporaryDirectory() as folder:
        for count in SIZES:
            tensors = {
                f"layer_{number}/kernel": np.arange(8, dtype=np.float32).reshape(2, 4) + number
                for number in range(count)
            }
            jobs = [in_safetensors, in_torch, in_npz, in_structures, in_checkpoints, in_hdf5]
            for job in jobs:
                job(report, count, tensors, Path(folder))
        one_large(report, Path(folder))
    of_tensorflow(report)
    report.finish("small")


def compare(
    report: Report,
    count: int,
    job: str,
    ours: Callable[[], Any],
    peer: str,
    theirs: Callable[[], Any],
    *,
    same: Callable[[Any, Any], bool] | None = None,
) -> None:
    """Adds a row, after looking whether both give the same."""
    if same is not None:
        assert same(ours(), theirs()), job
    times = best({"ours": ours, "theirs": theirs})
    report.add(
        tensors=count,
        job=job,
        time=duration(times["ours"]),
        each=duration(times["ours"] / count),
        beside=peer,
        other=duration(times["theirs"]),
        ratio=times["theirs"] / times["ours"],
    )


def equal(ours: Any, theirs: Any) -> bool:
    """Whether two dicts, or lists, have the same tensors."""
    if isinstance(ours, dict):
        names = list(ours)
        ours, theirs = [ours[name] for name in names], [theirs[name] for name in names]
    pairs = zip(ours, theirs, strict=True)
    return all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in pairs)


def in_safetensors(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    path, other = folder / "x.safetensors", folder / "y.safetensors"
    data = safetensors.numpy.save(tensors)
    assert ferry.dumps(tensors, format="safetensors") == data
    ferry.save(tensors, path, durable=False)
    peer = "safetensors.numpy"
    save = partial(ferry.save, tensors, path, durable=False)
    compare(
        report, count, "safetensors: dumps",
        partial(ferry.dumps, tensors, format="safetensors"),
        peer, partial(safetensors.numpy.save, tensors), same=lambda one, two: one == two,
    )  # fmt: skip
    compare(
        report, count, "safetensors: save",
        save, peer, partial(safetensors.numpy.save_file, tensors, other),
    )  # fmt: skip
    compare(
        report, count, "safetensors: load",
        partial(ferry.load, path), peer, partial(safetensors.numpy.load_file, path), same=equal,
    )  # fmt: skip
    compare(
        report, count, "safetensors: loads",
        partial(ferry.loads, data), peer, partial(safetensors.numpy.load, data), same=equal,
    )  # fmt: skip

    def theirs_one_by_one() -> dict[str, Any]:
        with safetensors.safe_open(path, "np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    compare(
        report, count, "safetensors: open, one by one",
        partial(one_by_one, path), "safe_open", theirs_one_by_one, same=equal,
    )  # fmt: skip

    def their_list() -> dict[str, list[int]]:
        with safetensors.safe_open(path, "np") as file:
            names = file.keys()
            return {name: file.get_slice(name).get_shape() for name in names}

    compare(
        report, count, "safetensors: list",
        partial(listed, path), "safe_open", their_list, same=dict.__eq__,
    )  # fmt: skip


def one_by_one(path: Path) -> dict[str, Any]:
    with ferry.open(path) as bundle:
        return {name: bundle[name] for name in bundle}


def listed(path: Path) -> dict[str, list[int | None]]:
    """The shapes of all tensors, none of which is read."""
    with ferry.open(path) as bundle:
        return {name: list(info.shape) for name, info in bundle.infos().items()}


def shapes_of(arrays: dict[str, Any]) -> dict[str, list[int]]:
    """The same of arrays that were read."""
    return {name: list(array.shape) for name, array in arrays.items()}


def in_torch(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    path, other = folder / "x.safetensors", folder / "y.safetensors"
    given = {name: torch.from_numpy(array) for name, array in tensors.items()}
    peer = "safetensors.torch"
    compare(
        report, count, "safetensors: save torch",
        partial(ferry.save, given, path, durable=False),
        peer, partial(safetensors.torch.save_file, given, other),
    )  # fmt: skip
    ferry.save(tensors, path, durable=False)
    compare(
        report, count, "safetensors: load to torch",
        partial(ferry.load, path, to="torch"),
        peer, partial(safetensors.torch.load_file, path), same=equal,
    )  # fmt: skip


def in_npz(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    path = folder / "x.npz"
    compare(
        report, count, "npz: save",
        partial(ferry.save, tensors, path, durable=False),
        "numpy.savez", lambda: np.savez(folder / "y.npz", **tensors),
    )  # fmt: skip

    def theirs() -> dict[str, Any]:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}

    compare(report, count, "npz: load", partial(ferry.load, path), "numpy.load", theirs, same=equal)
    compare(
        report, count, "npz: list",
        partial(listed, path), "numpy.load of all", lambda: shapes_of(theirs()), same=dict.__eq__,
    )  # fmt: skip


def in_structures(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    for what, value in (("list", list(tensors.values())), ("dict", tensors)):
        data, pickled = ferry.dumps(value), pickle.dumps(value, 5)
        compare(
            report, count, f"{what}: dumps",
            partial(ferry.dumps, value), "pickle", partial(pickle.dumps, value, 5),
        )  # fmt: skip
        compare(
            report, count, f"{what}: loads",
            partial(ferry.loads, data), "pickle", partial(pickle.loads, pickled), same=equal,
        )  # fmt: skip


def in_checkpoints(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    prefix = str(folder / "x.ckpt")
    names = list(tensors)

    def save() -> None:
        tf.raw_ops.SaveV2(
            prefix=prefix + "2",
            tensor_names=names,
            shape_and_slices=[""] * count,
            tensors=list(tensors.values()),
        )

    compare(
        report, count, "checkpoint: save",
        partial(ferry.save, tensors, prefix, durable=False), "tf.raw_ops.SaveV2", save,
    )  # fmt: skip

    def load() -> dict[str, Any]:
        reader = tf.train.load_checkpoint(prefix)
        return {name: reader.get_tensor(name) for name in names}

    compare(
        report, count, "checkpoint: load",
        partial(ferry.load, prefix), "tf.train.load_checkpoint", load, same=equal,
    )  # fmt: skip

    def theirs() -> dict[str, list[int]]:
        reader = tf.train.load_checkpoint(prefix)
        reader.get_variable_to_dtype_map()
        shapes: dict[str, list[int]] = reader.get_variable_to_shape_map()
        return shapes

    compare(
        report, count, "checkpoint: list",
        partial(listed, Path(prefix)), "tf.train.load_checkpoint", theirs, same=dict.__eq__,
    )  # fmt: skip


def in_hdf5(report: Report, count: int, tensors: dict[str, Any], folder: Path) -> None:
    path = folder / "x.h5"
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in tensors.items():
            file.create_dataset(name, data=array)

    def theirs() -> dict[str, Any]:
        with h5py.File(path) as file:
            return {name: file[name][()] for name in tensors}

    compare(report, count, "HDF5: load", partial(ferry.load, path), "h5py", theirs, same=equal)
    compare(
        report, count, "HDF5: list",
        partial(listed, path), "h5py of all", lambda: shapes_of(theirs()), same=dict.__eq__,
    )  # fmt: skip


def one_large(report: Report, folder: Path) -> None:
    path = folder / "large.safetensors"
    ferry.save({"x": np.arange(LARGE // 4, dtype=np.float32)}, path, durable=False)
    compare(
        report, 1, "128 MB of safetensors: load",
        partial(ferry.load, path), "safetensors.numpy", partial(safetensors.numpy.load_file, path),
    )  # fmt: skip
    compare(
        report, 1, "128 MB of safetensors: load to torch",
        partial(ferry.load, path, to="torch"),
        "safetensors.torch", partial(safetensors.torch.load_file, path), same=equal,
    )  # fmt: skip

    def summed(load: Callable[[], Any]) -> float:
        return float(load()["x"].sum())

    compare(
        report, 1, "128 MB of safetensors: load to torch, and sum",
        partial(summed, partial(ferry.load, path, to="torch")),
        "safetensors.torch", partial(summed, partial(safetensors.torch.load_file, path)),
    )  # fmt: skip


def of_tensorflow(report: Report) -> None:
    sparse = tf.SparseTensor([[0, 1], [2, 3]], [1.0, 2.0], [4, 5])
    compare(
        report, 1, "tf.SparseTensor: serialize_sparse",
        partial(ferry.tfio.serialize_sparse, sparse),
        "tf.io", lambda: tf.io.serialize_sparse(sparse).numpy(),
        same=lambda one, two: one.tolist() == two.tolist(),
    )  # fmt: skip
    tensor = tf.random.uniform((8, 8))
    compare(
        report, 1, "tf.Tensor of 64: dumps",
        partial(ferry.dumps, tensor), "numpy() + dumps", lambda: ferry.dumps(tensor.numpy()),
        same=lambda one, two: one == two,
    )  # fmt: skip
    ragged = tf.ragged.constant([[1, 2], [3]])
    parts = [ragged.flat_values, *ragged.nested_row_splits]
    compare(
        report, 1, "tf.RaggedTensor: dumps",
        partial(ferry.dumps, ragged), "numpy() + dumps of its parts",
        lambda: ferry.dumps([part.numpy() for part in parts]),
    )  # fmt: skip


if __name__ == "__main__":
    main()
