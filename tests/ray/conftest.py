"""Every test here runs on the cluster of the session."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture(autouse=True)
def _cluster(ray_cluster):
    """Ray is up."""


def rows_of(count, first=0):
    """Rows with a value of every kind that an Example holds; every third lacks one."""
    for number in range(first, first + count):
        row = {
            "id": number,
            "embedding": np.arange(16, dtype=np.float32) + number,
            "tokens": np.arange(number % 7 + 1),
            "text": f"row {number}".encode(),
        }
        if number % 3:
            row["score"] = number / 2
        yield row


@pytest.fixture(scope="session")
def train(tmp_path_factory):
    """A set of four TFRecord shards with 4,000 rows."""
    folder = tmp_path_factory.mktemp("train")
    path = str(folder / "train@4.tfrecord")
    ferry.save(rows_of(4000), path)
    return path
