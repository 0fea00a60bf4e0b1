"""Feeds in Keras and tf.data: the same batches, trained on, with their specs and number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import feeds
from tensorferry.errors import UnsupportedError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

ROWS = 530


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("keras")
    numbers = np.arange(ROWS)
    x = np.random.default_rng(0).random((ROWS, 4), dtype=np.float32)
    columns = {
        "id": numbers,
        "x": x,
        "y": x.sum(1),
        "text": np.array([b"%d" % number for number in numbers], object),
        "tokens": ferry.RaggedTensor.from_rows(
            [list(range(n % 5)) for n in numbers], dtype="int64"
        ),
    }
    with ferry.writer(found / "a.tfrecord") as out:
        out.write_batch(columns)
    with ferry.writer(found / "a.tfrecord.gz", compression="gzip") as out:
        out.write_batch(columns)
    return found


def ids(batch: Any) -> list[int]:
    found: list[int] = np.asarray(batch["id"]).tolist()
    return found


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("drop", [False, True])
def test_a_tf_dataset_gives_the_batches_of_the_feed(folder: Path, name: str, drop: bool) -> None:
    how: dict[str, Any] = {"batch": 32, "shuffle": True, "seed": 1, "drop_remainder": drop}
    feed = feeds.Feed(folder / name, **how)
    wanted = [[ids(batch) for batch in feed] for _ in range(2)]
    data = feeds.tensorflow.dataset(folder / name, **how)
    assert [[ids(batch) for batch in data] for _ in range(2)] == wanted
    if name == "a.tfrecord":
        assert data.cardinality().numpy() == len(wanted[0])
    spec = data.element_spec
    assert spec["x"].shape.as_list()[1:] == [4]
    assert spec["x"].dtype == tf.float32
    assert spec["text"].dtype == tf.string
    batch = next(iter(data))
    assert isinstance(batch["tokens"], tf.RaggedTensor)
    assert batch["tokens"].row_lengths().numpy().tolist() == [n % 5 for n in ids(batch)]
    assert batch["text"].numpy().tolist() == [b"%d" % number for number in ids(batch)]


def test_padded_batches_of_a_tf_dataset_have_their_own_widths(tmp_path: Path) -> None:
    """The spec leaves the width open that `pad` makes of each batch, and keeps the others."""
    lengths = [n % 3 if n < 5000 else n % 9 for n in range(9000)]
    boxes = ferry.RaggedTensor.from_rows([np.ones((n, 2), np.float32) for n in lengths])
    schema = {"box": ("float32", (None, 2))}
    with ferry.writer(tmp_path / "x.tfrecord", schema=schema) as out:
        out.write_batch({"box": boxes})
    data = feeds.tensorflow.dataset(
        tmp_path / "x.tfrecord", batch=500, schema=schema, pad={"box": 0}
    )
    assert data.element_spec["box"].shape.as_list() == [None, None, 2]
    total = sum(float(tf.reduce_sum(batch["box"])) for batch in data)
    assert total == 2 * sum(lengths)


def test_keras_fits_and_evaluates(folder: Path) -> None:
    data = feeds.keras.dataset(
        folder / "a.tfrecord", batch=50, shuffle=True, columns=["x", "y"], targets="y"
    )
    assert len(data) == 11
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    losses = model.fit(data, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    assert data.feed.epoch >= 4  # Keras asks for one more when it is done
    assert model.evaluate(data, verbose=0) < losses[0]


def test_keras_gets_several_inputs_by_name_and_weights(folder: Path) -> None:
    data = feeds.keras.dataset(
        folder / "a.tfrecord", batch=10, inputs=["x", "id"], targets="y", weights="y"
    )
    inputs, targets, weights = data[2]
    assert inputs["id"].tolist() == list(range(20, 30))
    assert np.array_equal(targets, weights)
    with pytest.raises(IndexError):
        data[53]


def test_keras_refuses_what_is_only_read_in_order(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="in order"):
        feeds.keras.dataset(folder / "a.tfrecord.gz")
