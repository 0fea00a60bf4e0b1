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


def test_tensorflow_checkpoints_keep_the_place_of_an_iterator(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An iterator of another dataset, restored, goes on in the epoch with the next batch."""
    monkeypatch.setattr(feeds.tensorflow, "LARGE", 64)
    how: dict[str, Any] = {"batch": 16, "shuffle": True, "seed": 1}
    data = feeds.tensorflow.dataset(folder / "a.tfrecord", **how)
    first = [ids(batch) for batch in data]
    running = iter(data)
    for _ in range(7):
        next(running)
    path = tf.train.Checkpoint(data=running).save(str(tmp_path / "checkpoint"))
    wanted = [ids(batch) for batch in running]
    assert len(wanted) == 34 - 7
    assert wanted[0] != first[7]  # this is the second epoch

    again = iter(feeds.tensorflow.dataset(folder / "a.tfrecord", **how))
    tf.train.Checkpoint(data=again).restore(path)
    assert [ids(batch) for batch in again] == wanted


def test_passes_over_a_tf_dataset_do_not_disturb_each_other(folder: Path) -> None:
    """Each pass has an epoch of its own, though another one is left, or runs beside it."""
    how: dict[str, Any] = {"batch": 32, "shuffle": True, "seed": 1}
    feed = feeds.Feed(folder / "a.tfrecord", **how)
    wanted = [[ids(batch) for batch in feed] for _ in range(9)]
    data = feeds.tensorflow.dataset(folder / "a.tfrecord", **how)
    pairs = [(ids(one), ids(other)) for one, other in tf.data.Dataset.zip((data, data))]
    assert [list(epoch) for epoch in zip(*pairs, strict=True)] == wanted[:2]
    for number in range(2, 8):
        assert ids(next(iter(data))) == wanted[number][0]
    assert [ids(batch) for batch in data] == wanted[8]


def test_a_tf_dataset_goes_on_where_its_feed_is(folder: Path) -> None:
    feed = feeds.Feed(folder / "a.tfrecord", batch=32, shuffle=True, seed=1)
    wanted = [[ids(batch) for batch in feed] for _ in range(2)]
    feed.set_epoch(0)
    for _, batch in zip(range(5), feed, strict=False):
        assert ids(batch) in wanted[0][:5]
    data = feeds.tensorflow.dataset(feed)
    assert [ids(batch) for batch in data] == wanted[0][5:]
    assert [ids(batch) for batch in data] == wanted[1]


def test_a_remainder_is_padded_to_batches_of_a_tf_dataset(folder: Path) -> None:
    """Padding fills the last batch, not the large ones that TensorFlow is given."""
    how: dict[str, Any] = {"batch": 32, "shuffle": True, "seed": 1, "pad_remainder": True}
    data = feeds.tensorflow.dataset(folder / "a.tfrecord", **how)
    wanted = [ids(batch) for batch in feeds.Feed(folder / "a.tfrecord", **how)]
    assert [ids(batch) for batch in data] == wanted
    assert {len(batch) for batch in wanted} == {32}


def test_a_transform_sees_the_batches_of_a_tf_dataset(folder: Path) -> None:
    """It is called on batches of the size asked for, and not on the large ones."""
    data = feeds.tensorflow.dataset(
        folder / "a.tfrecord", batch=32, transform=lambda batch: {"rows": batch["id"][-1:] + 1}
    )
    assert [int(batch["rows"][0]) for batch in data] == [*range(32, ROWS, 32), ROWS]


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


def test_keras_names_a_column_that_is_not_there(folder: Path) -> None:
    data = feeds.keras.dataset(folder / "a.tfrecord", columns=["x", "y"], targets="z")
    with pytest.raises(UnsupportedError, match=r"(?s)'z'.*x, y"):
        data[0]


def test_a_tf_dataset_of_no_rows_is_refused(tmp_path: Path) -> None:
    """Nothing tells what its batches would look like."""
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(UnsupportedError, match="no rows"):
        feeds.tensorflow.dataset(tmp_path / "empty.tfrecord")


@pytest.mark.parametrize("module", ["keras", "tensorflow"])
def test_options_beside_a_feed_are_refused(folder: Path, module: str) -> None:
    """A Feed has its own options: others would be ignored."""
    feed = feeds.Feed(folder / "a.tfrecord", batch=8, columns=["x", "y"])
    with pytest.raises(UnsupportedError, match="a Feed has its options: batch cannot be given"):
        getattr(feeds, module).dataset(feed, batch=16)
