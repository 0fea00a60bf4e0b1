"""`writer(..., quantize={"emb": "int8"})`: floats of TFRecords that take a quarter of the space."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.errors import FormatError, OptionError, UnsupportedError

ROWS, WIDTH = 300, 16


@pytest.fixture(scope="module")
def columns():
    """Rows with embeddings, lists of any length, and others that stay as they are."""
    random = np.random.default_rng(0)
    lists = [random.standard_normal(n % 5).astype(np.float32) for n in range(ROWS)]
    return {
        "id": np.arange(ROWS),
        "text": np.array([f"row {n}".encode() for n in range(ROWS)], object),
        "emb": random.standard_normal((ROWS, WIDTH)).astype(np.float32),
        "any": ferry.RaggedTensor.from_rows(lists, dtype="float32"),
    }


def write(path, columns, **how):
    """Writes the columns row by row."""
    with ferry.writer(path, **how) as out:
        for n in range(ROWS):
            out.write({name: column[n] for name, column in columns.items()})


@pytest.mark.parametrize("kind", ["int8", "uint8", "float16", "bfloat16"])
def test_read_back_as_floats(kind, columns, tmp_path):
    """Every way of reading gives float32, at most half a step or a rounding away."""
    path = tmp_path / "new" / "q.tfrecord"
    write(path, columns, quantize={"emb": kind, "any": kind})

    wanted, lists = columns["emb"], columns["any"]
    step = {"float16": 2**-11, "bfloat16": 2**-8}.get(kind, 1 / 254)
    largest = max(np.abs(wanted).max(), np.abs(lists.flat_values).max())
    bound = largest * step * 1.01
    rows = ferry.open(path)
    value = rows.value()
    assert value["emb"].dtype == np.float32
    assert value["emb"].shape == wanted.shape
    assert np.abs(value["emb"] - wanted).max() <= bound
    assert (value["any"].row_lengths == lists.row_lengths).all()
    assert np.abs(value["any"].flat_values - lists.flat_values).max() <= bound
    assert value["id"].tolist() == columns["id"].tolist()
    assert value["text"].tolist() == columns["text"].tolist()
    assert rows.infos()["emb"].quantized == kind
    assert np.array_equal(rows[7]["emb"], value["emb"][7])
    assert np.array_equal(rows[7]["any"], value["any"][7])
    assert np.array_equal(next(iter(rows.batches(10)))["emb"], value["emb"][:10])
    frame = rows.to_pandas()
    assert np.array_equal(np.stack([one.reshape(-1) for one in frame["emb"]]), value["emb"])
    assert np.array_equal(frame["any"][9], value["any"][9])


def test_tensorflow_reads_it(tf, columns, tmp_path):
    """`tf.io.parse_tensor` and the scale of the schema beside give the same floats."""
    path = tmp_path / "q.tfrecord"
    write(path, columns, quantize={"emb": "int8"})

    schema = json.loads((tmp_path / "q.tfrecord.schema.json").read_text())
    (feature,) = [one for one in schema["features"] if one["name"] == "emb"]
    scale = feature["quantized"]["scale"]
    assert f"tf.io.parse_tensor(x, tf.int8), tf.float32) * {scale}" in str(
        ferry.open(path).schema.to_tf_spec()
    )
    spec = {
        "emb": tf.io.FixedLenFeature([], tf.string),
        "id": tf.io.FixedLenFeature([], tf.int64),
        "any": tf.io.RaggedFeature(tf.float32),
    }
    (batch,) = tf.data.TFRecordDataset(str(path)).batch(ROWS)
    parsed = tf.io.parse_example(batch, spec)
    found = tf.stack([tf.io.parse_tensor(text, tf.int8) for text in parsed["emb"]])
    floats = (tf.cast(found, tf.float32) * scale).numpy()
    assert np.array_equal(floats, ferry.open(path)["emb"])
    assert parsed["id"].numpy().tolist() == columns["id"].tolist()
    assert parsed["any"].flat_values.numpy().tolist() == columns["any"].flat_values.tolist()


def test_a_quarter_of_the_space(tmp_path):
    """Embeddings of 256 floats take about a quarter as int8, and half as float16."""
    values = np.random.default_rng(1).standard_normal((100, 256)).astype(np.float32)
    sizes = {
        kind: ferry.save({"e": values}, tmp_path / f"{kind}.tfrecord", quantize=how).nbytes
        for kind, how in (("plain", None), ("int8", {"e": "int8"}), ("half", {"e": "float16"}))
    }
    assert sizes["int8"] < 0.3 * sizes["plain"]
    assert sizes["half"] < 0.55 * sizes["plain"]


def test_batches_rows_and_shards_are_the_same(columns, tmp_path):
    """Columns, rows, frames and shards have one scale, and the same values."""
    how = {"quantize": {"emb": "int8"}}
    write(tmp_path / "rows.tfrecord", columns, **how)
    ferry.save(columns, tmp_path / "columns.tfrecord", **how)
    with ferry.writer(tmp_path / "set.tfrecord@3", compression="gzip", **how) as out:
        out.write_batch(columns)
    wanted = ferry.load(tmp_path / "rows.tfrecord")["emb"]
    assert np.array_equal(ferry.load(tmp_path / "columns.tfrecord")["emb"], wanted)
    rows = ferry.open(tmp_path / "set.tfrecord@3").value()
    assert np.array_equal(rows["emb"][np.argsort(rows["id"])], wanted)
    (alone,) = ferry.open(tmp_path / "set.tfrecord-00001-of-00003").batches(ROWS)
    assert np.array_equal(alone["emb"], wanted[alone["id"]])


def test_rows_that_lack_it(tmp_path):
    """A row without the column lacks it when it is read, too."""
    with ferry.writer(tmp_path / "q.tfrecord", quantize={"e": "int8"}) as out:
        out.write({"e": [1.0, -2.0]})
        out.write({"id": 1})
        out.write({"e": np.array([0.5, 0.25], ml_dtypes.bfloat16), "id": 2})
    first, second, third = ferry.open(tmp_path / "q.tfrecord")
    assert first["e"].tolist() == [pytest.approx(1, abs=0.01), -2]
    assert (second["e"], second["id"]) == (None, 1)
    assert np.allclose(third["e"], [0.5, 0.25], atol=0.01)
    with ferry.writer(tmp_path / "none.tfrecord", quantize={"e": "int8"}):
        pass
    assert list(ferry.open(tmp_path / "none.tfrecord")) == []


def test_what_cannot_be_is_refused(columns, tmp_path):
    """Nothing is clipped in silence, and what fails leaves no file."""
    path = tmp_path / "q.tfrecord"
    with pytest.raises(UnsupportedError, match="largest error of int8 in 'emb'"):
        write(path, columns, quantize={"emb": ("int8", 1e-6)})
    with ferry.writer(tmp_path / "ok.tfrecord", quantize={"e": "int8"}) as out:
        for bad in ([np.nan], np.array([1e300]), ["a"]):
            with pytest.raises(UnsupportedError, match="'e'"):
                out.write({"e": bad})
        out.write({"e": [1.0]})
    assert ferry.load(tmp_path / "ok.tfrecord")["e"].tolist() == [[1.0]]
    with (
        pytest.raises(FormatError, match="dimensions"),
        ferry.writer(path, quantize={"e": "int8"}) as out,
    ):
        out.write({"e": [1.0]})
        out.write({"e": [[1.0]]})
    with pytest.raises(UnsupportedError, match="appended"):
        ferry.writer(tmp_path / "ok.tfrecord", append=True, quantize={"e": "int8"})
    with pytest.raises(UnsupportedError, match="beside"):
        ferry.dumps({"e": columns["emb"]}, format="tfrecord", quantize={"e": "int8"})
    with pytest.raises(UnsupportedError, match="columns"):
        ferry.save(columns, path, quantize="int8")
    with pytest.raises(OptionError, match="quantize"):
        ferry.save({"id": np.arange(3)}, tmp_path / "q.csv", quantize={"id": "int8"})
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "ok.tfrecord",
        "ok.tfrecord.schema.json",
    ]


def test_a_file_that_is_not_quantized_replaces_one_that_was(tmp_path):
    """The schema of the old file does not stay behind."""
    values = np.ones((4, 3), np.float32)
    ferry.save({"e": values}, tmp_path / "q.tfrecord", quantize={"e": "int8"})
    ferry.save({"e": values}, tmp_path / "q.tfrecord")
    assert np.array_equal(ferry.load(tmp_path / "q.tfrecord")["e"], values)
    assert [one.name for one in tmp_path.iterdir()] == ["q.tfrecord"]


def test_in_a_store(s3):
    """The scale goes to the store and comes from it."""
    values = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    url = f"s3://{s3.bucket}/rows/q.tfrecord"
    ferry.save({"e": values}, url, quantize={"e": "int8"})
    found = ferry.load(url)["e"]
    assert found.dtype == np.float32
    assert np.abs(found - values).max() <= 1 / 254


def test_a_column_that_no_row_has(tmp_path):
    """A name that is misspelled is refused, and the near one is named; nothing is written."""
    columns = {"emb": np.ones((3, 2), np.float32)}
    with pytest.raises(ferry.UnsupportedError, match=r"'emd'(.|\n)*did you mean 'emb'"):
        ferry.save(columns, tmp_path / "x.tfrecord", quantize={"emd": "int8"})
    with (
        pytest.raises(ferry.UnsupportedError, match="no row has the column 'emd'"),
        ferry.writer(tmp_path / "x.tfrecord", quantize={"emd": "int8"}) as out,
    ):
        out.write({"emb": [1.0, 2.0]})
    assert list(tmp_path.iterdir()) == []
