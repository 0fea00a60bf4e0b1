"""Named tensors in files: safetensors, npz, npy, HDF5, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import tensorflow as tf
from bench_checkpoint import list_theirs, read_theirs, save_theirs
from bench_files import read_h5py, read_pickle, write_h5py, write_pickle, write_raw

import tensorferry as ferry
from jobs import Limit, Way, Work, job
from jobs.tensors import floats

# Many of 256 bytes, or 64 of 2 MB.
TENSORS = {"small": 10, "medium": 5_000, "large": 64}
COUNTS = {64: 1 << 19}
# h5py takes long for many.
HDF5 = {**TENSORS, "medium": 500}


def tensors(count: int) -> dict[str, Any]:
    """Named tensors: few large ones, or many small ones."""
    each = COUNTS.get(count, 64)
    values = floats(count * each)
    return {f"layer_{i:04}.kernel": values[i * each : (i + 1) * each] for i in range(count)}


def written(path: str, write: Callable[[], Any], read: Callable[[str], Any]) -> Way:
    """A way whose answer is what is in the file afterwards."""
    return Way(write, lambda _: read(path))


def saving(folder: Path, value: Any, ending: str, **options: Any) -> Way:
    """Ours, which does not wait for the disk, because no peer does."""
    path = str(folder / f"ours{ending}")
    return written(path, partial(ferry.save, value, path, durable=False, **options), ferry.load)


def disk(folder: Path, value: Mapping[str, Any]) -> Limit:
    """One `writev` of the same buffers."""
    return Limit("writev", lambda: write_raw(str(folder / "raw.bin"), dict(value)))


@job("tensors to a safetensors file", TENSORS, "tensors")
def save_safetensors(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "theirs.safetensors")
    pickled = str(folder / "theirs.pickle")
    return Work(
        saving(folder, value, ".safetensors"),
        {
            "safetensors": written(
                path, lambda: safetensors.numpy.save_file(value, path), safetensors.numpy.load_file
            ),
            "pickle": written(pickled, lambda: write_pickle(pickled, value), read_pickle),
        },
        disk(folder, value),
    )


@job("a safetensors file to NumPy", TENSORS, "tensors")
def load_safetensors(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "x.safetensors")
    safetensors.numpy.save_file(value, path)
    write_pickle(str(folder / "x.pickle"), value)
    return Work(
        Way(partial(ferry.load, path)),
        {
            "safetensors": Way(partial(safetensors.numpy.load_file, path)),
            "pickle": Way(partial(read_pickle, str(folder / "x.pickle"))),
        },
    )


@job("a safetensors file to NumPy, summed", TENSORS, "tensors")
def sum_safetensors(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "x.safetensors")
    safetensors.numpy.save_file(value, path)

    def summed(read: Callable[[str], Any]) -> Way:
        return Way(lambda: [array.sum() for array in read(path).values()], sorted)

    return Work(
        summed(ferry.load),
        {"safetensors": summed(safetensors.numpy.load_file)},
        Limit("memory", lambda: [array.sum() for array in value.values()]),
    )


@job("a safetensors file to torch", TENSORS, "tensors")
def load_torch(folder: Path, count: int) -> Work:
    path = str(folder / "x.safetensors")
    safetensors.numpy.save_file(tensors(count), path)
    return Work(
        Way(partial(ferry.load, path, to="torch")),
        {"safetensors": Way(partial(safetensors.torch.load_file, path))},
    )


@job("one tensor of a safetensors file", TENSORS, "tensors in it")
def one_of_safetensors(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "x.safetensors")
    safetensors.numpy.save_file(value, path)
    name = next(reversed(value))

    def ours() -> Any:
        with ferry.open(path) as bundle:
            return bundle[name]

    def theirs() -> Any:
        with safetensors.safe_open(path, "np") as file:
            return file.get_tensor(name)

    return Work(Way(ours), {"safetensors": Way(theirs)})


@job("tensors to an npz file", TENSORS, "tensors")
def save_npz(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "theirs.npz")
    return Work(
        saving(folder, value, ".npz"),
        {"NumPy": written(path, lambda: np.savez(path, **value), read_npz)},
        disk(folder, value),
    )


def read_npz(path: str) -> dict[str, Any]:
    with np.load(path) as file:
        return dict(file)


@job("an npz file to tensors", TENSORS, "tensors")
def load_npz(folder: Path, count: int) -> Work:
    path = str(folder / "x.npz")
    np.savez(path, **tensors(count))
    return Work(Way(partial(ferry.load, path)), {"NumPy": Way(partial(read_npz, path))})


DEFLATED = {"small": 10, "medium": 500}


@job("tensors to a deflated npz file", DEFLATED, "tensors")
def save_deflated(folder: Path, count: int) -> Work:
    value = {
        name: array.astype(np.float16).astype(np.float32) for name, array in tensors(count).items()
    }
    path = str(folder / "theirs.npz")
    return Work(
        saving(folder, value, ".npz", compression="deflate"),
        {"NumPy": written(path, lambda: np.savez_compressed(path, **value), read_npz)},
    )


FLOATS = {"small": 64, "medium": 1 << 18, "large": 1 << 24}


@job("a tensor to an npy file", FLOATS, "floats")
def save_npy(folder: Path, count: int) -> Work:
    array, path = floats(count), str(folder / "theirs.npy")
    return Work(
        saving(folder, array, ".npy"),
        {"NumPy": written(path, lambda: np.save(path, array), np.load)},
        disk(folder, {"x": array}),
    )


@job("an npy file to a tensor", FLOATS, "floats")
def load_npy(folder: Path, count: int) -> Work:
    path = str(folder / "x.npy")
    np.save(path, floats(count))
    return Work(
        Way(partial(ferry.load, path)),
        {
            "NumPy": Way(partial(np.load, path)),
            "NumPy, mapped": Way(partial(np.load, path, mmap_mode="r")),
        },
    )


def layers(count: int) -> dict[str, Any]:
    """The same tensors under the paths of Keras' weights."""
    return {f"layers/dense_{i}/vars/0": array for i, array in enumerate(tensors(count).values())}


@job("tensors to an HDF5 file of Keras' weights", HDF5, "tensors")
def save_hdf5(folder: Path, count: int) -> Work:
    value, path = layers(count), str(folder / "theirs.h5")
    return Work(
        saving(folder, value, ".weights.h5"),
        {"h5py": written(path, lambda: write_h5py(path, value), read_h5py)},
        disk(folder, value),
    )


@job("an HDF5 file to tensors", HDF5, "tensors")
def load_hdf5(folder: Path, count: int) -> Work:
    path = str(folder / "x.weights.h5")
    write_h5py(path, layers(count))
    return Work(Way(partial(ferry.load, path)), {"h5py": Way(partial(read_h5py, path))})


@job("tensors to a checkpoint", TENSORS, "variables")
def save_checkpoint(folder: Path, count: int) -> Work:
    value, path = tensors(count), str(folder / "theirs.ckpt")
    eager = {name: tf.constant(array) for name, array in value.items()}
    return Work(
        saving(folder, value, ".ckpt"),
        {"TensorFlow": written(path, lambda: save_theirs(path, eager), read_theirs)},
        disk(folder, value),
    )


@job("a checkpoint to tensors, every checksum verified", TENSORS, "variables")
def load_checkpoint(folder: Path, count: int) -> Work:
    path = str(folder / "x.ckpt")
    ferry.save(tensors(count), path, durable=False)

    # Loading verifies all of them.
    return Work(Way(partial(ferry.load, path)), {"TensorFlow": Way(partial(read_theirs, path))})


@job("the variables of a checkpoint, listed", TENSORS, "variables")
def list_checkpoint(folder: Path, count: int) -> Work:
    path = str(folder / "x.ckpt")
    ferry.save(tensors(count), path, durable=False)

    def ours() -> dict[str, list[int | None]]:
        with ferry.open(path) as bundle:
            return {name: list(info.shape) for name, info in bundle.infos().items()}

    return Work(Way(ours), {"TensorFlow": Way(partial(list_theirs, path))})


QUANTIZED = {"small": 1 << 12, "medium": 1 << 20, "large": 1 << 24}


@job("floats to int8 in a safetensors file", QUANTIZED, "floats")
def quantize(folder: Path, count: int) -> Work:
    array, path = floats(count).reshape(-1, 64), str(folder / "theirs.safetensors")
    ours = str(folder / "ours.safetensors")

    def by_hand() -> None:
        scale = np.abs(array).max() / 127
        rounded = np.clip(np.round(array / scale), -127, 127).astype(np.int8)
        safetensors.numpy.save_file({"x": rounded, "scale": scale.reshape(1)}, path)

    def near(_: Any) -> Any:
        """Whether all values are within half a step."""
        found = ferry.load(ours)["x"]
        return bool(np.abs(found - array).max() <= np.abs(array).max() / 127)

    def near_theirs(_: Any) -> Any:
        found = safetensors.numpy.load_file(path)
        return bool(np.abs(found["x"] * found["scale"] - array).max() <= np.abs(array).max() / 127)

    save = partial(ferry.save, {"x": array}, ours, quantize="int8", durable=False)
    return Work(Way(save, near), {"NumPy and safetensors, by hand": Way(by_hand, near_theirs)})


@job("two safetensors files compared", TENSORS, "tensors")
def compare(folder: Path, count: int) -> Work:
    value = tensors(count)
    paths = [str(folder / name) for name in ("a.safetensors", "b.safetensors")]
    for path in paths:
        safetensors.numpy.save_file(value, path)

    def by_hand() -> bool:
        one, other = (safetensors.numpy.load_file(path) for path in paths)
        return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)

    return Work(
        Way(partial(ferry.diff, *paths), lambda report: report.equal),
        {"safetensors and NumPy, by hand": Way(by_hand)},
    )


@job("a file verified", TENSORS, "tensors")
def verify(folder: Path, count: int) -> Work:
    path = str(folder / "x.npz")
    np.savez(path, **tensors(count))

    def by_zipfile() -> bool:
        import zipfile

        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None

    return Work(
        Way(partial(ferry.verify, path), lambda report: not report.problems),
        {"zipfile": Way(by_zipfile)},
    )
