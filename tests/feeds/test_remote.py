"""Feeds from a store: each row once over ranks, the same order, resumed without the start."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import feeds
from tensorferry.errors import ChecksumError

ROWS, FILES = 400, 4
ENDINGS = ("tfrecord", "tfrecord.gz", "parquet")


@pytest.fixture
def urls(s3: Any) -> dict[str, str]:
    """Files of four, each 100 rows, of every ending."""
    for ending, number in itertools.product(ENDINGS, range(FILES)):
        numbers = np.arange(ROWS)[number * 100 :][:100]
        with ferry.writer(f"s3://{s3.bucket}/{ending}/t-{number}.{ending}") as out:
            out.write_batch({"id": numbers, "x": np.ones((100, 64), np.float32)})
    return {ending: f"s3://{s3.bucket}/{ending}/t-*" for ending in ENDINGS}


def epoch(feed: feeds.Feed) -> list[list[int]]:
    return [batch["id"].tolist() for batch in feed]


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_row_once_over_ranks_and_epochs(urls: dict[str, str], ending: str) -> None:
    """The parts of three ranks are all rows, in every epoch; the order is that of the seed."""

    def make(rank: int) -> feeds.Feed:
        shard = (rank, 3)
        return feeds.Feed(urls[ending], batch=32, shuffle=True, seed=2, shard=shard, window=64)

    ranks = [make(rank) for rank in range(3)]
    epochs = [[epoch(feed) for feed in ranks] for _ in range(2)]
    for parts in epochs:
        assert sorted(itertools.chain(*itertools.chain(*parts))) == list(range(ROWS))
    assert epochs[0] != epochs[1]
    assert epoch(make(1)) == epochs[0][1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_resuming_reads_nothing_of_files_that_are_done(
    urls: dict[str, str], ending: str, s3: Any
) -> None:
    """The next batch is the one that would have come; of files before it only the size is asked."""

    def make() -> feeds.Feed:
        return feeds.Feed(urls[ending], batch=25, shuffle=True, seed=1, window=50, prefetch=0)

    whole = epoch(make())
    feed = make()
    running = iter(feed)
    taken = [next(running)["id"].tolist() for _ in range(14)]
    assert taken == whole[:14]
    state = json.loads(json.dumps(feed.state_dict()))
    resumed = make()
    resumed.load_state_dict(state)
    s3.clear()
    assert epoch(resumed) == whole[14:]
    asked = Counter(one.path for one in s3.requests if "/t-" in one.path)
    assert sum(count > 1 for count in asked.values()) <= 1  # the file that was not done
    again = len(s3.requests)
    assert len(epoch(resumed)) == 16
    assert len(s3.requests) - again <= 2 * FILES


def test_a_damaged_file_is_passed_over(s3: Any) -> None:
    """`on_error="skip"` gives each whole row once, in a store and compressed."""
    import gzip

    path = f"s3://{s3.bucket}/bad/x.tfrecord"
    plain = ferry.dumps({"id": np.arange(50)}, format="tfrecord")
    damaged = bytearray(plain)
    damaged[len(damaged) // 2] ^= 1
    from tensorferry import storage

    for url, content in ((path, bytes(damaged)), (f"{path}.gz", gzip.compress(bytes(damaged)))):
        with storage.open_sink(url) as sink:
            sink.write(content)
        with pytest.raises(ChecksumError):
            epoch(feeds.Feed(url, batch=8, shuffle=True))
        feed = feeds.Feed(url, batch=8, shuffle=True, on_error="skip")
        seen = list(itertools.chain(*epoch(feed)))
        assert len(seen) == len(set(seen)) == 49


def test_a_dataset_of_tensorflow_datasets_in_a_store(s3: Any) -> None:
    """The splits and the features are read beside the files, wherever they are."""
    tensor = {"pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor"}
    scalar = {**tensor, "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"}}
    features = {
        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
        "featuresDict": {"features": {"id": scalar}},
    }
    info = {"name": "mine", "splits": [{"name": "train", "shardLengths": ["3", "2"]}]}
    folder = f"s3://{s3.bucket}/mine/1.0.0"
    for name, content in (("dataset_info", info), ("features", features)):
        text = np.frombuffer(json.dumps(content).encode(), np.uint8)
        ferry.save(text, f"{folder}/{name}.json", format="raw")
    for number, rows in enumerate([[0, 1, 2], [3, 4]]):
        path = f"{folder}/mine-train.tfrecord-0000{number}-of-00002"
        with ferry.writer(path, format="tfrecord") as out:
            for row in rows:
                out.write({"id": row, "other": 1.5})

    found = feeds.tfds.rows(folder, "train")
    assert found.columns == ["id"]  # what features.json has
    assert [batch["id"].tolist() for batch in feeds.Feed(found, batch=4)] == [[0, 1, 2, 3], [4]]
