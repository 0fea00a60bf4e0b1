"""Feeds: exactly once, the same order, resumed anywhere, over formats, shards and workers."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorferry as ferry
from tensorferry import feeds
from tensorferry.errors import (
    ChecksumError,
    FormatError,
    MissingExtraError,
    UnknownFeatureError,
    UnsupportedError,
)
from tensorferry.tensors.values import RaggedTensor

ROWS = 211
KINDS = ("plain", "gzip", "parquet", "arrow", "one")


def columns(start: int, stop: int) -> dict[str, Any]:
    numbers = np.arange(start, stop)
    tokens = RaggedTensor.from_rows([list(range(n % 7)) for n in numbers], dtype="int64")
    return {"id": numbers, "x": numbers[:, None] * np.ones(3, np.float32), "tokens": tokens}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    cuts = [0, 50, 51, 140, ROWS]
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        for kind, compression in (("plain", None), ("gzip", "gzip")):
            with ferry.writer(folder / f"{kind}-{number}.tfrecord", compression=compression) as out:
                out.write_batch(columns(start, stop))
        for kind in ("parquet", "arrow"):
            ferry.save(
                columns(start, stop), folder / f"t-{number}.{kind}", rows=True, batch_rows=30
            )
    with ferry.writer(folder / "one.tfrecord") as out:
        out.write_batch(columns(0, ROWS))
    return {
        "plain": f"{folder}/plain-*.tfrecord",
        "gzip": f"{folder}/gzip-*.tfrecord",
        "parquet": f"{folder}/t-*.parquet",
        "arrow": f"{folder}/t-*.arrow",
        "one": f"{folder}/one.tfrecord",
    }


def ids(batch: Any) -> list[int]:
    found: list[int] = batch["id"].tolist()
    return found


def epoch(feed: feeds.Feed) -> list[list[int]]:
    return [ids(batch) for batch in feed]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_is_each_row_once_with_its_own_columns(
    data: dict[str, str], kind: str, shuffle: bool
) -> None:
    feed = feeds.Feed(data[kind], batch=16, shuffle=shuffle, seed=3, window=50)
    seen = []
    for batch in feed:
        seen.append(ids(batch))
        assert batch["x"][:, 1].tolist() == seen[-1]
        assert batch["tokens"].row_lengths.tolist() == [number % 7 for number in seen[-1]]
    assert sorted(flat(seen)) == list(range(ROWS))
    assert (flat(seen) == list(range(ROWS))) != shuffle
    again = epoch(feed)
    assert (again == seen) != shuffle
    assert sorted(flat(again)) == list(range(ROWS))


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shuffle=st.booleans(),
    batch=st.integers(1, 70),
    world=st.integers(1, 4),
    workers=st.integers(1, 3),
    window=st.integers(1, 80),
    step=st.integers(0, 20),
    start=st.integers(0, 2),
)
def test_shards_workers_and_resuming_give_the_same_rows(
    data: dict[str, str],
    kind: str,
    shuffle: bool,
    batch: int,
    world: int,
    workers: int,
    window: int,
    step: int,
    start: int,
) -> None:
    def make(rank: int) -> feeds.Feed:
        feed = feeds.Feed(
            data[kind], batch=batch, shuffle=shuffle, seed=5, shard=(rank, world), window=window
        )
        feed.set_epoch(start)
        return feed

    ranks = [epoch(make(rank)) for rank in range(world)]
    assert sorted(number for rank in ranks for number in flat(rank)) == list(range(ROWS))
    assert max(map(len, map(flat, ranks))) - min(map(len, map(flat, ranks))) <= 1
    whole = ranks[0]
    # Killed after some batches, and resumed by so many workers as nobody had before.
    feed = make(0)
    running = iter(feed)
    step = min(step, len(whole))
    taken = [ids(batch) for _, batch in zip(range(step), running, strict=False)]
    state = json.loads(json.dumps(feed.state_dict()))
    running.close()  # type: ignore[attr-defined]
    assert taken == whole[: len(taken)]
    left = whole[len(taken) :]
    if feed.epoch > start:  # behind the last batch, where that is known
        assert not left
        left = epoch(feed)
    shares = []
    for worker in range(workers):
        resumed = make(0)
        resumed.set_epoch(9)
        resumed.load_state_dict(state)
        shares.append([ids(batch) for _, _, batch in resumed.marked((worker, workers))])
    assert [shares[n % workers][n // workers] for n in range(len(left))] == left
    assert sum(map(len, shares)) == len(left)


@pytest.mark.parametrize("how", [{"bucket": {"tokens": (2, 4)}}, {"pack": {"tokens": 9}}])
@pytest.mark.parametrize("kind", ["plain", "gzip"])
def test_buckets_and_packed_rows_resume_at_every_batch(
    data: dict[str, str], kind: str, how: dict[str, Any]
) -> None:
    def make() -> feeds.Feed:
        return feeds.Feed(data[kind], batch=4, shuffle=True, seed=1, window=60, **how)

    def shown(batch: Any) -> dict[str, Any]:
        return {
            name: column.to_list() if isinstance(column, RaggedTensor) else column.tolist()
            for name, column in batch.items()
        }

    whole = [shown(batch) for batch in make()]
    feed = make()
    for step, batch in enumerate(feed, 1):
        assert shown(batch) == whole[step - 1]
        if step % 7 == 0:
            resumed = make()
            resumed.load_state_dict(feed.state_dict())
            assert [shown(left) for left in resumed] == whole[step:]


def test_buckets_hold_rows_of_similar_length(data: dict[str, str]) -> None:
    feed = feeds.Feed(data["one"], batch=8, shuffle=True, bucket={"tokens": (2, 4)})
    seen = []
    for batch in feed:
        lengths = batch["tokens"].row_lengths
        assert len({int(np.searchsorted((2, 4), length)) for length in lengths}) == 1
        seen.append(ids(batch))
    assert sorted(flat(seen)) == list(range(ROWS))


def test_packed_rows_hold_every_token_once(data: dict[str, str]) -> None:
    feed = feeds.Feed(data["one"], batch=8, pack={"tokens": 10})
    tokens = 0
    for batch in feed:
        segment, position = batch["tokens_segment"], batch["tokens_position"]
        assert batch["tokens"].shape == segment.shape
        assert segment.shape[1] == 10
        assert (batch["tokens"][segment > 0] == position[segment > 0]).all()
        assert (batch["tokens"][segment == 0] == 0).all()
        tokens += int((segment > 0).sum())
    assert tokens == sum(number % 7 for number in range(ROWS))


def test_padding_fills_and_cuts(data: dict[str, str]) -> None:
    (batch,) = feeds.Feed(data["one"], batch=ROWS, pad={"tokens": -1})
    assert batch["tokens"].shape == (ROWS, 6)
    assert batch["tokens"][8].tolist() == [0, -1, -1, -1, -1, -1]
    (batch,) = feeds.Feed(data["one"], batch=ROWS, pad={"tokens": (-1, 3)})
    assert batch["tokens"].shape == (ROWS, 3)
    assert batch["tokens"][6].tolist() == [0, 1, 2]


def test_remainders(data: dict[str, str]) -> None:
    def sizes(rank: int, **how: Any) -> list[int]:
        feed = feeds.Feed(data["plain"], batch=10, shard=(rank, 3), shuffle=True, **how)
        found = [len(batch["id"]) for batch in feed]
        assert len(feed) == len(found)
        return found

    assert [sizes(rank) for rank in range(3)] == [[10] * 7, [10] * 7, [10] * 7 + [1]]
    assert [sizes(rank, drop_remainder=True) for rank in range(3)] == [[10] * 7] * 3
    assert [sizes(rank, pad_remainder=True) for rank in range(3)] == [[10] * 8] * 3
    seen = set()
    for rank in range(3):
        feed = feeds.Feed(
            data["plain"], batch=10, shard=(rank, 3), shuffle=True, pad_remainder=True
        )
        seen |= set(flat(epoch(feed)))
    assert seen == set(range(ROWS))


@pytest.mark.parametrize("how", [{}, {"drop_remainder": True}, {"pad_remainder": True}])
def test_loops_that_count_batches_get_every_epoch(data: dict[str, str], how: Any) -> None:
    """A loop that stops behind the last batch, and never asks for more, ends its epoch."""
    feed = feeds.Feed(data["plain"], batch=16, shuffle=True, seed=3, **how)
    wanted = [epoch(feed) for _ in range(2)]
    counting = feeds.Feed(data["plain"], batch=16, shuffle=True, seed=3, **how)
    found = [
        [ids(batch) for _, batch in zip(range(len(counting)), counting, strict=False)]
        for _ in range(2)
    ]
    assert found == wanted
    assert counting.state_dict() == feed.state_dict()
    assert (counting.epoch, feed.epoch) == (2, 2)


def test_a_transform_runs_on_each_batch_and_its_error_reaches_the_loop(
    data: dict[str, str],
) -> None:
    def double(batch: Any) -> Any:
        if 100 in batch["id"]:
            raise ZeroDivisionError("of the transform")
        return {"id": batch["id"] * 2}

    feed = feeds.Feed(data["one"], batch=30, transform=double)
    seen = []
    with pytest.raises(ZeroDivisionError, match="of the transform"):
        for batch in feed:
            seen.append(ids(batch))
    assert flat(seen) == list(range(0, 180, 2))


def test_what_is_ahead_is_bounded(data: dict[str, str]) -> None:
    begun = []
    feed = feeds.Feed(
        data["one"], batch=1, prefetch=2000, transform=lambda batch: begun.append(1) or batch
    )
    running = iter(feed)
    next(running)
    import time

    time.sleep(0.2)
    assert len(begun) < ROWS // 2
    running.close()  # type: ignore[attr-defined]


def test_a_feed_is_pickled_with_its_place(data: dict[str, str]) -> None:
    feed = feeds.Feed(data["plain"], batch=20, shuffle=True, seed=2)
    running = iter(feed)
    before = [ids(next(running)), ids(next(running))]
    other = pickle.loads(pickle.dumps(feed))
    running.close()  # type: ignore[attr-defined]
    whole = epoch(feeds.Feed(data["plain"], batch=20, shuffle=True, seed=2))
    assert before + epoch(other) == whole


def test_damaged_records_are_skipped_and_the_others_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path) as out:
        out.write_batch(columns(0, 50))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ChecksumError):
        list(feeds.Feed(path, batch=8, shuffle=True))
    feed = feeds.Feed(path, batch=8, shuffle=True, on_error="skip")
    seen = flat(epoch(feed))
    assert len(seen) == len(set(seen)) == 49
    assert len(feed.rows.damages) == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"batch": 0}, "batch=0"),
        ({"batch": 2.5}, "whole numbers"),
        ({"shard": (3, 3)}, "rank from 0"),
        ({"drop_remainder": True, "pad_remainder": True}, "not both"),
        ({"bucket": {"tokens": (1,)}, "pack": {"tokens": 5}}, "not both"),
        ({"pack": {"tokens": 5, "x": 1}}, "expected one"),
    ],
)
def test_arguments_that_do_not_go_together(
    data: dict[str, str], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        feeds.Feed(data["one"], **how)


def test_a_state_of_other_data_is_refused(data: dict[str, str]) -> None:
    state = feeds.Feed(data["plain"], seed=1).state_dict()
    for feed in (feeds.Feed(data["plain"], seed=2), feeds.Feed(data["one"], seed=1)):
        with pytest.raises(UnsupportedError, match="the state has"):
            feed.load_state_dict(state)


def test_a_state_that_lacks_something_is_refused(data: dict[str, str]) -> None:
    feed = feeds.Feed(data["plain"])
    for lost in ("epoch", "batches", "begun"):
        state = {name: value for name, value in feed.state_dict().items() if name != lost}
        with pytest.raises(UnsupportedError, match="no state of a feed"):
            feed.load_state_dict(state)


def test_tensors_are_no_rows(tmp_path: Path) -> None:
    ferry.save({"a": np.zeros(3)}, tmp_path / "a.npz")
    with pytest.raises(UnsupportedError, match="expected rows"):
        feeds.Feed(tmp_path / "a.npz")


def test_images_are_decoded(tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    with ferry.writer(tmp_path / "i.tfrecord") as out:
        for size in (4, 4, 2):
            data = io.BytesIO()
            Image.fromarray(pixels[:size, :size]).save(data, "PNG")
            out.write({"image": data.getvalue()})
    first, second = feeds.Feed(tmp_path / "i.tfrecord", batch=2, images=["image"])
    assert first["image"].shape == (2, 4, 4, 3)
    assert np.array_equal(first["image"][1], pixels)
    assert np.array_equal(second["image"][0], pixels[:2, :2])
    with ferry.writer(tmp_path / "bad.tfrecord") as out:
        out.write({"image": b"\x89PNG and nothing"})
    with pytest.raises(FormatError, match="cannot be decoded"):
        list(feeds.Feed(tmp_path / "bad.tfrecord", images=["image"]))


@pytest.mark.parametrize("rows", [1, 256, 3000])
def test_records_decoded_together_are_the_right_ones(tmp_path: Path, rows: int) -> None:
    """Batches from anywhere in several files are what rows one by one are, in large groups, too."""
    for number in range(3):
        with ferry.writer(tmp_path / f"a-{number}.tfrecord", durable=False) as out:
            out.write_batch(columns(number * 3000, number * 3000 + 3000))
    with ferry.open(f"{tmp_path}/a-*.tfrecord") as found:
        order = np.random.default_rng(rows).permutation(len(found))[: rows * 3]
        wanted = [order[start : start + rows] for start in range(0, len(order), rows)]
        batches = list(found.gathered(wanted))

    assert [ids(batch) for batch in batches] == [numbers.tolist() for numbers in wanted]
    for batch in batches:
        for place, row in enumerate(batch["id"].tolist()):
            assert batch["tokens"][place].tolist() == list(range(row % 7))


def test_an_error_comes_behind_the_batches_before_it(tmp_path: Path) -> None:
    """A loop gets all whole batches before a damaged record, though several are made together."""
    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        out.write_batch(columns(0, 1000))
    with ferry.open(tmp_path / "a.tfrecord") as found:
        schema, place = found.schema, int(found._access.indexes()[0][437, 0])
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[place + 20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)

    seen = []
    with pytest.raises(ChecksumError, match="record 437"):
        for batch in feeds.Feed(tmp_path / "a.tfrecord", batch=10, schema=schema):
            seen += ids(batch)
    assert seen == list(range(430))


@pytest.mark.parametrize(
    "how",
    [
        {"pad": {"tokenz": 0}},
        {"images": ["tokenz"]},
        {"bucket": {"tokenz": (2, 4)}},
        {"pack": {"tokenz": 9}},
    ],
)
def test_columns_that_are_not_there_are_refused_at_once(
    data: dict[str, str], how: dict[str, Any]
) -> None:
    with pytest.raises(UnknownFeatureError, match=r"(?s)tokenz.*did you mean 'tokens'"):
        feeds.Feed(data["one"], **how)


def test_a_length_below_zero_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match="-3"):
        feeds.Feed(data["one"], pad={"tokens": (0, -3)})


@pytest.mark.parametrize("kind", ["plain", "gzip"])
def test_records_of_bytes_are_one_column(data: dict[str, str], kind: str) -> None:
    """`raw=True` feeds the bytes of records, for messages that are no Examples."""
    feed = feeds.Feed(data[kind], raw=True, batch=16, shuffle=True, seed=3, window=50)
    seen = [record for batch in feed for record in batch["record"].tolist()]
    assert sorted(seen) == sorted(ferry.Records(data[kind], raw=True))
    assert seen != list(ferry.Records(data[kind], raw=True))
    with pytest.raises(UnsupportedError, match="raw=True"):
        feeds.Feed(ferry.Records(data[kind], raw=True))


@pytest.mark.parametrize(("times", "groups"), [(0, 1), (0.5, 1), (1.5, 2), (100, 4)])
def test_records_are_decoded_ahead_as_far_as_was_asked(
    tmp_path: Path, times: float, groups: int
) -> None:
    """What native threads decode before it is asked for is bounded by bytes, and by threads."""
    with ferry.writer(tmp_path / "a.tfrecord", durable=False) as out:
        out.write_batch({"id": np.arange(60_000)})
    asked = []

    def wanted() -> Any:
        for start in range(0, 60_000, 1000):
            asked.append(start)
            yield np.arange(start, start + 1000)

    with ferry.open(tmp_path / "a.tfrecord", threads=3) as found:
        assert isinstance(found, ferry.Records)
        size = 5000 * found._access.average
        gathered = found.gathered_together(wanted(), ahead=int(times * size))
        _, ends = next(gathered)
        assert len(asked) == groups * len(ends)
        rest = [end for _, group in gathered for end in group]
        assert len(rest) + len(ends) == 60


def test_images_without_pillow_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ferry.writer(tmp_path / "i.tfrecord") as out:
        out.write({"image": b"\x89PNG"})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match="pip install pillow"):
        list(feeds.Feed(tmp_path / "i.tfrecord", images=["image"]))
