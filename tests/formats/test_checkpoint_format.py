"""Checkpoints by the contract of formats: found, opened as a bundle, written."""

from __future__ import annotations

import io

import numpy as np
import pytest
from conftest import CORPUS
from strategies import same

from tensorferry import errors
from tensorferry.formats.checkpoint.format import FORMAT, CheckpointOptions, CheckpointWriting
from tensorferry.storage import FileSink
from tensorferry.storage.place import Place, Target
from tensorferry.tensors.content import Content
from tensorferry.tensors.values import RaggedTensor, SparseTensor


def write(value, path, *, metadata=None, quantize=None, **options):
    content = Content.of_value(value).adding(metadata, quantize)
    target = Target(str(path), durable=False)
    return FORMAT.writes.write(content, target, CheckpointWriting(**options))


def read(path, **options):
    place = FORMAT.reads.find(Place(path))
    return FORMAT.reads.open(place, CheckpointOptions(**options))


def test_what_is_written_is_read(tmp_path):
    """Structures, sparse and ragged tensors, strings and metadata come back as they were."""
    ragged = RaggedTensor(np.arange(5.0), (np.array([0, 2, 5]),))
    sparse = SparseTensor(np.array([[0, 1]]), np.array([3.0]), np.array([2, 2]))
    value = {"a": {"b": np.arange(3), "text": np.array([b"x", b""], object)}, "l": [ragged, sparse]}

    written = write(value, tmp_path / "model", metadata={"run": 7}, shards=2)

    with read(tmp_path) as bundle:
        assert bundle.metadata == {"run": 7}
        assert set(bundle.files) == set(written.files)
        assert written.nbytes == sum((tmp_path / name).stat().st_size for name in written.files)
        assert (bundle.version, bundle.checksums, bundle.format) == ("2", True, "checkpoint")
        found = bundle.value()
    assert same(found["a"]["b"], value["a"]["b"])
    assert same(found["a"]["text"], value["a"]["text"])
    assert same(found["l"][0].flat_values, ragged.flat_values)
    assert same(found["l"][1].values, sparse.values)


def test_keys_are_other_names(tf, tmp_path):
    """A tensor is found by its key in the index beside its readable name."""
    path = tf.train.Checkpoint(layer={"kernel": tf.Variable([1.0, 2.0])}).write(
        str(tmp_path / "ckpt")
    )

    with read(path) as bundle:
        key = "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE"
        assert bundle.info["layer/kernel"].origin["aliases"] == (key,)
        assert same(bundle[key], bundle["layer/kernel"])
        assert bundle.details.graph.nodes
        assert key not in list(bundle)
    with read(path, names="keys") as bundle:
        assert key in list(bundle)


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.arange(3, dtype=np.int8), "b": np.ones((2, 0)), "c": np.array(True)},
        {"a": np.arange(3), "text": np.array([b"x", b""], object)},
        {"a": {"b": np.arange(3)}, "c": np.ones(2)},
    ],
    ids=["numbers", "strings", "objects"],
)
def test_all_together_and_one_by_one(tmp_path, value):
    """What is said of all tensors at once is what is said of each alone."""
    write(value, tmp_path / "model")
    with read(tmp_path) as bundle:
        assert dict(bundle.infos()) == {name: bundle.info[name] for name in bundle}
        assert len(bundle.infos()) == len(list(bundle))


def test_quantized_values(tmp_path):
    """Quantized values are floats again, unless the stored ones are asked for."""
    value = {"w": np.linspace(-1, 1, 64, dtype=np.float32)}
    write(value, tmp_path / "model", quantize="int8")

    with read(tmp_path / "model") as bundle:
        assert bundle.info["w"].quantized == "int8"
        assert np.abs(bundle["w"] - value["w"]).max() < 0.01
    for options in ({"dequantize": False}, {"parts": True}):
        with read(tmp_path / "model", **options) as bundle:
            assert bundle["w"].dtype == np.int8


def test_parts(tmp_path):
    """The parts of a ragged tensor are given as they are stored, if that is asked for."""
    write({"r": RaggedTensor(np.arange(5.0), (np.array([0, 2, 5]),))}, tmp_path / "model")

    with read(tmp_path / "model", parts=True) as bundle:
        assert set(bundle) == {"r/flat_values", "r/row_splits_0"}


def test_variants_stay_alone(tf, tmp_path):
    """A tensor that cannot be read is listed with the reason, and the others are served."""
    variant = tf.RaggedTensor.from_row_splits([1, 2], [0, 2])._to_variant()
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "model"),
        tensor_names=["r", "v"],
        shape_and_slices=["", ""],
        tensors=[variant, tf.constant(1)],
    )

    with read(tmp_path / "model") as bundle:
        assert bundle.info["r"].dtype == "variant"
        assert "TensorFlow's" in bundle.info["r"].unreadable
        assert bundle["v"] == 1
        with pytest.raises(errors.UnsupportedError, match="no values") as caught:
            bundle["r"]
        assert caught.value.tensor == "r"
        assert list(bundle.problems()) == []


def test_needs_a_path(tmp_path):
    """A checkpoint is neither written to memory nor read from a stream: both say why."""
    content = Content.of_value({"v": np.zeros(2)})
    target = Target("<bytes>", into=FileSink(io.BytesIO()))

    with pytest.raises(errors.UnsupportedError, match="several files, and must be saved to a path"):
        FORMAT.writes.write(content, target, CheckpointWriting())
    for place in (Place(b"\0" * 100), Place(io.BytesIO(b"\0" * 100))):
        assert FORMAT.reads.find(place) is None
        with pytest.raises(errors.UnsupportedError, match="opened by its path"):
            FORMAT.reads.open(place, CheckpointOptions())


def test_extents_cover_the_values(tmp_path):
    """Each tensor says where its bytes lie, so that remote reads can be planned together."""
    sparse = SparseTensor(np.array([[0, 1]]), np.array([3.0]), np.array([2, 2]))
    value = {"n": np.arange(7), "s": np.array([b"one", b"two"], object), "p": sparse}
    write(value, tmp_path / "model")

    with read(tmp_path / "model") as bundle:
        for name in bundle:
            stored = bundle.details.stored[name]
            size = sum(stop - start for _, start, stop in stored.extents())
            assert size == stored.nbytes > 0
        (source, start, stop), *_ = bundle.details.stored["n"].extents()
        assert bytes(source.range(start, stop)) == value["n"].tobytes()


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_each_file_is_opened_once(monkeypatch):
    """However many tensors are read, each data file is opened once, and the index once."""
    from tensorferry.storage import place

    opened = []
    original, adopt = place.open_local, Place.adopt

    def adopted(self, source):
        opened.append(source.path)
        adopt(self, source)

    monkeypatch.setattr(place, "open_local", lambda path: opened.append(path) or original(path))
    monkeypatch.setattr(Place, "adopt", adopted)
    path = CORPUS / "tensorflow/saved_model/OptimizerSlotVariableModule/variables/variables"

    with FORMAT.reads.open(Place(path), CheckpointOptions()) as bundle:
        bundle.value()

    assert opened == [f"{path}.data-00000-of-00001"]
