"""Conversion between all pairs of formats, with `diff` as the judge.

The pairs come from the table of formats: a new format is tested against all others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.formats.table import TABLE as FORMATS

TABLE = {name: facts for name, facts in FORMATS.items() if facts.typed}
"""Formats that say the types of their values; text is `test_text`."""

SINGLE = ("npy", "tensorproto", "raw")
"""One tensor that has no name."""

MODELS = ("keras", "savedmodel")
"""No strings."""

KERAS_PATH = "layers/dense/vars/0"
"""What a variable has to be called for a file of Keras that comes from no file of Keras."""


def content() -> dict:
    """Columns of one length, so that they are also rows."""
    generator = np.random.default_rng(3)
    return {
        "score": generator.standard_normal((12, 3)).astype(np.float32),
        "label": np.arange(12, dtype=np.int64) % 5,
        "name": np.array([f"row {row}".encode() for row in range(12)], object),
    }


def path_of(folder: Path, format: str) -> Path:
    """The name of a file of a format."""
    endings = {"keras": ".weights.h5", "savedmodel": ".model"}
    return folder / f"file{endings.get(format) or FORMATS[format].suffixes[0]}"


@pytest.fixture(scope="session")
def sources(tmp_path_factory, tf) -> dict[str, Path]:
    """A file of each format, written by its own library where ours writes none."""
    found = {}
    for name, row in TABLE.items():
        path = found[name] = path_of(tmp_path_factory.mktemp(name), name)
        values = content()
        if name in SINGLE:
            ferry.save(values["score"], path, durable=False)
        elif name == "savedmodel":
            module = tf.Module()
            module.score, module.label = tf.Variable(values["score"]), tf.Variable(values["label"])
            tf.saved_model.save(module, str(path))
        elif name == "keras":
            _save_keras(values, path)
        elif row.records:
            with ferry.writer(path, durable=False) as out:
                out.write_batch(values)
        else:
            rows = {"rows": True} if row.opens == "rows" else {}
            ferry.save(values, path, durable=False, **rows)
    return found


def _save_keras(values: dict, path: Path) -> None:
    """As Keras writes it: a kernel and a bias of one length, under the name of a layer."""
    import keras

    model = keras.Sequential(
        [keras.Input((12,), name="given"), keras.layers.Dense(12, name="dense")], name="weights"
    )
    kernel = np.tile(values["score"], (1, 4))
    model.layers[0].set_weights([kernel, values["label"].astype(np.float32)])
    model.save_weights(path)


def first_name(path: Path) -> str:
    """A tensor of floats."""
    with ferry.open(path) as opened:
        names = list(opened.infos())
    return next(name for name in ("score", "dense/kernel", "tensor") if name in names)


def changes(source: str, target: str, path: Path) -> dict:
    """What has to be selected or renamed, because the target has no place for all of it."""
    name = first_name(path)
    if target in SINGLE and source not in SINGLE:
        return {"select": [name]}
    if target == "keras" and source != "keras":
        return {"select": [name], "rename": {name: KERAS_PATH}}
    return {}


@pytest.mark.parametrize("target", TABLE)
@pytest.mark.parametrize("source", TABLE)
def test_pair(sources, tmp_path, source, target):
    """The same afterwards: names, dtypes, shapes, every value."""
    given, made = sources[source], path_of(tmp_path, target)
    how = changes(source, target, given)
    report = ferry.convert(given, made, format=target, durable=False, verify=True, **how)

    assert report.verified
    names = {"*": "tensor"} if target in SINGLE else how.get("rename")
    found = ferry.diff(given, made, map=names, match=how.get("select", ()))
    assert found.equal, found
    assert len(found.tensors) == (1 if how else report.count if report.holds == "tensors" else 3)
    if report.holds != "tensors" and not how and TABLE[target].opens == "rows":
        assert report.count == 12


@pytest.mark.parametrize("target", [name for name in TABLE if name in (*SINGLE, "keras")])
@pytest.mark.parametrize("source", [name for name in TABLE if name not in (*SINGLE, *MODELS)])
def test_what_does_not_fit(sources, tmp_path, source, target):
    """Several tensors into one, or names that no variable of Keras has: refused, with a hint."""
    with pytest.raises(ferry.UnsupportedError) as caught:
        ferry.convert(sources[source], path_of(tmp_path, target), durable=False)
    expected = "is no path of a variable" if target == "keras" else "holds one tensor"
    assert expected in str(caught.value)
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("between", [n for n, row in TABLE.items() if row.opens == "rows"])
@pytest.mark.parametrize("source", ["npz", "safetensors", "checkpoint", "structure", "json"])
def test_columns_to_rows_and_back(sources, tmp_path, source, between):
    """A bundle of columns is records or a table, and the same bundle again, in its own format."""
    rows, back = path_of(tmp_path, between), tmp_path / f"back{sources[source].suffix}"
    ferry.convert(sources[source], rows, durable=False)
    ferry.convert(rows, back, durable=False)

    assert ferry.diff(sources[source], back).equal
    value = ferry.load(back)
    for name, column in content().items():
        assert np.array_equal(value[name], column)
        assert value[name].dtype == column.dtype


@pytest.mark.parametrize("between", [name for name in TABLE if name not in SINGLE])
def test_keras_and_back(sources, tmp_path, between):
    """Weights of Keras go through every format that keeps their names, and Keras loads them."""
    import keras

    middle, back = path_of(tmp_path, between), tmp_path / "back.weights.h5"
    ferry.convert(sources["keras"], middle, format=between, durable=False)
    paths = {"dense/kernel": "layers/dense/vars/0", "dense/bias": "layers/dense/vars/1"}
    ferry.convert(middle, back, rename=None if between == "keras" else paths, durable=False)
    model = keras.Sequential(
        [keras.Input((12,), name="given"), keras.layers.Dense(12, name="dense")], name="weights"
    )
    model.load_weights(back)

    assert np.array_equal(model.layers[0].bias, content()["label"])


@pytest.mark.parametrize("text", [name for name in FORMATS if name not in TABLE])
@pytest.mark.parametrize("source", ["tfrecord", "arrow", "parquet", "npz"])
def test_text(tmp_path, source, text):
    """Numbers of 64 bits and texts go into text and back; others are refused, or numbers."""
    values = {
        "id": np.arange(3),
        "score": np.array([0.1, 2.0, -1e300]),
        "name": np.array([b"a,b", b"", "\u00e4".encode()], object),
    }
    given, made, back = path_of(tmp_path, source), path_of(tmp_path, text), tmp_path / "back.npz"
    if source == "npz":
        ferry.save(values, given, durable=False)
    else:
        with ferry.writer(given, durable=False) as out:
            out.write_batch(values)
    assert ferry.convert(given, made, durable=False, verify=True).verified
    ferry.convert(made, back, durable=False)

    assert ferry.diff(given, back).equal


@pytest.mark.parametrize("name", ["file.csv.gz", "file.jsonl.zst"])
def test_compressed_text(sources, tmp_path, name):
    """What is not compressed is not written under the name of something that is."""
    with pytest.raises(ferry.UnsupportedError, match="is not compressed as a whole"):
        ferry.convert(sources["npz"], tmp_path / name, select=["label"])
    assert not list(tmp_path.iterdir())
