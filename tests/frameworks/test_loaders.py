"""TFRecord files as the data source of other frameworks' loaders, with workers of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tensorferry as ferry


@pytest.fixture
def path(tmp_path):
    """Two shards of numbered records."""
    with ferry.writer(tmp_path / "data.tfrecord@2") as out:
        out.write_batch({"id": np.arange(100), "x": np.ones((100, 3), np.float32)})
    return str(tmp_path / "data.tfrecord@2")


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_map_style_dataset(path, workers):
    """A torch DataLoader reads records in any order, in its own processes too."""
    loading = pytest.importorskip("torch.utils.data")
    loader = loading.DataLoader(ferry.open(path), batch_size=10, shuffle=True, num_workers=workers)
    batches = list(loader)

    assert sorted(int(number) for batch in batches for number in batch["id"]) == list(range(100))
    assert batches[0]["x"].shape == (10, 3)


def test_grain_source(path):
    """Grain takes the records as a random access data source."""
    grain = pytest.importorskip("grain")
    dataset = grain.MapDataset.source(ferry.open(path)).shuffle(seed=1).batch(10)
    batches = [dataset[i] for i in range(len(dataset))]

    assert sorted(int(number) for batch in batches for number in batch["id"]) == list(range(100))
