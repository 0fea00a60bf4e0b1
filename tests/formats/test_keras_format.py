"""Weights of Keras by the contract of formats: opened as a bundle from every place, written."""

from __future__ import annotations

import io
import os

import h5py
import numpy as np
import pytest
from formats.keras_models import build
from strategies import same

import tensorferry as ferry
from tensorferry.errors import UnsupportedError
from tensorferry.formats.keras import reader
from tensorferry.formats.keras.format import FORMAT, KerasReading, KerasWriting
from tensorferry.storage import FileSink
from tensorferry.storage.place import Place, Target
from tensorferry.storage.source import Source
from tensorferry.tensors.content import Content
from tensorferry.tensors.values import RaggedTensor

TENSORS = {
    "layers/dense/vars/0": np.arange(6, dtype="f4").reshape(2, 3),
    "layers/dense/vars/1": np.ones(3, "f4"),
    "layers/other/vars/0": np.arange(4),
}


@pytest.fixture(scope="module")
def keras(tf):
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    return keras


def write(value, path, *, into=None, metadata=None, **options):
    content = Content.of_value(value).adding(metadata, None)
    target = Target(str(path), durable=False, into=into)
    return FORMAT.writes.write(content, target, KerasWriting(**options))


def read(given):
    return FORMAT.reads.open(Place(given), KerasReading())


def as_bytes(tensors):
    memory = io.BytesIO()
    write(tensors, "<bytes>", into=FileSink(memory))
    return memory.getvalue()


def test_every_place(tmp_path):
    """A path, bytes, a file object and a stream that cannot be mapped all give the tensors."""
    written = write(TENSORS, tmp_path / "x.weights.h5")
    data = (tmp_path / "x.weights.h5").read_bytes()
    stream = Source("<pipe>", file=io.BytesIO(data))

    assert written.nbytes == len(data)
    assert data == as_bytes(TENSORS)
    for given in (tmp_path / "x.weights.h5", data, io.BytesIO(data), stream):
        with read(given) as bundle:
            assert not bundle.checksums
            assert set(bundle) == set(TENSORS)
            for name, array in TENSORS.items():
                assert same(bundle[name], array)


def test_archives(keras, tmp_path):
    """An archive has a version and checksums; its weights are replaced, and nothing else."""
    model, _ = build(keras, "sequential")
    model.save(tmp_path / "model.keras")
    data = (tmp_path / "model.keras").read_bytes()

    for given in (tmp_path / "model.keras", data, Source("<pipe>", file=io.BytesIO(data))):
        with read(given) as bundle:
            assert bundle.version == keras.__version__
            assert bundle.checksums
            assert bundle.details.config["class_name"] == "Sequential"
            assert same(bundle["first/kernel"], model.get_layer("first").kernel.numpy())
            assert same(bundle["layers/dense/vars/0"], bundle["first/kernel"])
    written = write({"first/bias": np.full(3, 7, "f4")}, tmp_path / "model.keras")
    assert written.nbytes == (tmp_path / "model.keras").stat().st_size
    assert keras.models.load_model(tmp_path / "model.keras").get_layer("first").bias[0] == 7


def test_shards(tmp_path):
    """Several files with an index are written, listed and read."""
    written = write(TENSORS, tmp_path / "m.weights.json", shard_size=24)

    assert len(written.files) == 3
    assert written.nbytes == sum((tmp_path / name).stat().st_size for name in written.files)
    with read(tmp_path / "m.weights.json") as bundle:
        assert sorted(bundle.files) == sorted(written.files)
        assert all(same(bundle[name], array) for name, array in TENSORS.items())
    index = (tmp_path / "m.weights.json").read_bytes()
    with pytest.raises(UnsupportedError, match="expected beside it"):
        read(index)


def test_refused(tmp_path):
    """What these files have no place for is refused, and nothing is written."""
    flat = {"layers/dense/vars/0": np.ones(2)}
    ragged = RaggedTensor(np.ones(2), (np.array([0, 2]),))

    with pytest.raises(UnsupportedError, match="no place for metadata"):
        write(flat, tmp_path / "a.weights.h5", metadata={"run": 1})
    with pytest.raises(UnsupportedError, match="no place for the nesting"):
        write({"a": flat}, tmp_path / "a.weights.h5")
    with pytest.raises(UnsupportedError, match="can only be replaced"):
        write(flat, tmp_path / "a.keras")
    with pytest.raises(UnsupportedError, match="are read, not written"):
        write(flat, tmp_path / "a.h5")
    with pytest.raises(UnsupportedError, match="saved to a path"):
        write(flat, "<bytes>", into=FileSink(io.BytesIO()), shard_size="1MB")
    with pytest.raises(UnsupportedError, match="layers/dense/vars/0"):
        write({"layers/dense/vars/0": ragged}, tmp_path / "a.weights.h5")
    assert list(tmp_path.iterdir()) == []


def test_unreadable_datasets_stay_alone(tmp_path):
    """A compound dataset and an external link are listed with the reason; others are read."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vars/0"] = np.arange(3)
        file.create_dataset("vars/1", (2, 5), np.dtype([("a", "f4"), ("b", "i4")]))
        file["vars/2"] = h5py.ExternalLink("other.h5", "/vars/0")

    with read(tmp_path / "x.h5") as bundle:
        assert same(bundle["vars/0"], np.arange(3))
        assert bundle.info["vars/1"].dtype == "compound"
        assert bundle.info["vars/1"].shape == (2, 5)
        assert "no numbers" in bundle.info["vars/1"].unreadable
        assert "another file" in bundle.info["vars/2"].unreadable
        assert list(bundle.problems()) == []
        for name in ("vars/1", "vars/2"):
            with pytest.raises(UnsupportedError, match=name):
                bundle[name]


class Counting(Source):
    """Bytes of which only ranges are given, as from a store, and the ranges that were asked for."""

    def __init__(self, data):
        super().__init__("memory://model")
        self.data, self.size = data, len(data)
        self.ranges_read = []
        self.expected = []

    def head(self, size):
        return self.data[:size]

    def range(self, start, stop):
        self.ranges_read.append((start, stop))
        return self.data[start:stop]

    def expect(self, spans):
        self.expected.append(list(spans))


def test_extents_cover_the_values(tmp_path):
    """Runs and chunks of values say where they lie, so that remote reads can be planned."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["vars/0"] = np.arange(300.0)
        file.create_dataset("vars/1", data=np.arange(1000), chunks=(100,), compression="gzip")
        file.create_dataset("vars/2", data=["a", "b"], dtype=h5py.string_dtype())
    source = Counting((tmp_path / "x.h5").read_bytes())
    with FORMAT.reads.open(Place(source), KerasReading()) as bundle:
        for name in ("vars/0", "vars/1", "vars/2"):
            ((found, start, stop),) = bundle.details.stored[name].extents()
            source.ranges_read.clear()
            bundle[name]
            assert found is source
            if name != "vars/2":
                assert all(start <= a <= b <= stop for a, b in source.ranges_read)
                assert source.ranges_read


def test_archive_is_fetched_in_large_pieces(keras, tmp_path, monkeypatch):
    """To be verified, a remote archive is fetched as one plan, or in few large pieces."""
    model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(1024)])
    model.save(tmp_path / "model.keras")
    for limit in (64 << 20, 1 << 20):
        monkeypatch.setattr(reader, "FETCHED", limit)
        source = Counting((tmp_path / "model.keras").read_bytes())
        with FORMAT.reads.open(Place(source), KerasReading()) as bundle:
            source.ranges_read.clear()
            bundle[next(iter(bundle))]
            planned = [stop - start for spans in source.expected for start, stop in spans]
            assert (max(planned, default=0) >= 2 << 20) == (limit > source.size)
            assert len(source.ranges_read) <= 4


def legacy(file, optimizer: bool = True):
    """A model of Keras 2.0, with the weights of one layer and of an optimizer."""
    file.attrs["keras_version"] = b"2.0.2"
    layers = file.create_group("model_weights")
    layers.attrs["layer_names"] = [b"dense_1"]
    dense = layers.create_group("dense_1")
    dense.attrs["weight_names"] = [b"dense_1/kernel:0"]
    dense["dense_1/kernel:0"] = np.ones((2, 3), "f4")
    if optimizer:
        return file.create_group("optimizer_weights")
    return None


def test_absolute_names_of_an_optimizer(tmp_path):
    """Keras 2.0 wrote absolute names, which h5py takes from the root of the file on."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = legacy(file)
        names = ["/training/Adam/m:0", "iterations:0"]
        for number, name in enumerate(names):
            group.create_dataset(name, data=np.full(2, number, "f4"))
        group.attrs["weight_names"] = [name.encode() for name in names]
    with ferry.open(tmp_path / "x.h5") as bundle:
        assert set(bundle) == {
            "dense_1/kernel",
            "optimizer/training/Adam/m",
            "optimizer/iterations",
        }
        assert bundle["optimizer/training/Adam/m"].tolist() == [0, 0]
        assert bundle["optimizer/iterations"].tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["missing", "no list", "link", "compound", "broken", "no text"])
def test_an_optimizer_never_hides_the_weights(tmp_path, kind):
    """Whatever is wrong with an optimizer, it is listed with the reason, and the weights read."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = legacy(file, kind != "link")
        if kind == "link":
            file["optimizer_weights"] = h5py.SoftLink("/nowhere")
        elif kind == "no list":
            group.attrs["weight_names"] = b"m:0"
        elif kind == "no text":
            group.attrs["weight_names"] = [b"\xff\xfe"]
        else:
            group.attrs["weight_names"] = [b"m:0"]
        if kind == "compound":
            group["m:0"] = np.zeros(2, "i4,f4")
        elif kind == "broken":
            group["m:0"] = h5py.SoftLink("/nowhere")
    with ferry.open(tmp_path / "x.h5") as bundle:
        reasons = {name: info.unreadable for name, info in bundle.infos().items()}
        assert bundle["dense_1/kernel"].tolist() == [[1] * 3] * 2
        (hidden,) = [name for name, reason in reasons.items() if reason]
        assert hidden.startswith("optimizer")
        with pytest.raises(ferry.UnsupportedError):
            bundle[hidden]
        assert any("optimizer" in note for note in bundle.notes)
    assert ferry.inspect(tmp_path / "x.h5").count == 2
    (loaded,) = ferry.load(tmp_path / "x.h5").items()
    assert loaded[0] == "dense_1/kernel"
    assert loaded[1].tolist() == [[1] * 3] * 2


def test_folder_of_a_model(tf, tmp_path):
    """`model.save(folder, zipped=False)` opens by the folder, as the archive of the model does."""
    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3, name="first")])
    keras.saving.save_model(model, tmp_path / "folder", zipped=False)
    model.save(tmp_path / "x.keras")
    with ferry.open(tmp_path / "folder") as found, ferry.open(tmp_path / "x.keras") as archive:
        assert list(found) == list(archive)
        assert all(np.array_equal(found[name], archive[name]) for name in archive)
        assert found.metadata["keras_version"] == archive.metadata["keras_version"]
        assert found.details.config == archive.details.config
    info = ferry.inspect(tmp_path / "folder")
    assert (info.format, info.count) == ("keras", 2)
