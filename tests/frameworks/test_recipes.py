"""The recipes for Lightning and webdataset, as docs/feeds.md has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tensorferry as ferry  # noqa: E402
from tensorferry import feeds  # noqa: E402

ROWS = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("recipes") / "train.tfrecord"
    values = np.random.default_rng(0).random((ROWS, 4), dtype=np.float32)
    ferry.save({"id": np.arange(ROWS), "x": values}, found)
    return found


def test_lightning_goes_on_in_the_middle_of_an_epoch(path: Path, tmp_path: Path) -> None:
    """`Trainer.fit(model, loader)` keeps the loader's place in its checkpoints by itself."""
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(4, 1)
            self.seen: list[Any] = []

        def training_step(self, batch: Any, number: int) -> Any:
            loss = (self.layer(batch["x"]) ** 2).mean()
            self.seen.append((batch["id"].tolist(), loss.item()))
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 0.01)

    def train(saved: Path | None = None) -> list[Any]:
        model = Model()
        folder = tmp_path / str(saved is None)
        keeping = ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=2,
            callbacks=[keeping],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        loader = feeds.torch.loader(path, batch=16, shuffle=True, seed=7)
        trainer.fit(model, loader, ckpt_path=saved)
        return model.seen

    whole = train()
    assert len(whole) == 14
    for epoch in (whole[:7], whole[7:]):
        assert sorted(number for numbers, _ in epoch for number in numbers) == list(range(ROWS))
    for step in (3, 7, 10):
        assert train(tmp_path / "True" / f"step={step}.ckpt") == whole[step:]


def test_samples_of_webdataset_become_rows(tmp_path: Path) -> None:
    """The samples of tar files are rows, streamed into shards."""
    wds = pytest.importorskip("webdataset")
    with wds.TarWriter(str(tmp_path / "train-000000.tar")) as out:
        for number in range(20):
            out.write({"__key__": f"{number:06}", "bin": bytes([number]), "cls": number % 3})

    samples = wds.WebDataset(str(tmp_path / "train-000000.tar"), shardshuffle=False)
    ferry.save(
        (
            {"key": sample["__key__"], "image": sample["bin"], "label": int(sample["cls"])}
            for sample in samples
        ),
        tmp_path / "train.tfrecord@2",
    )

    rows = ferry.open(tmp_path / "train.tfrecord@2").value()
    assert sorted(rows["key"].tolist()) == [f"{number:06}".encode() for number in range(20)]
    assert [int(image[0]) % 3 for image in rows["image"]] == rows["label"].tolist()


def test_webdataset_loads_a_feed(path: Path) -> None:
    """A feed is the dataset of a `WebLoader`, whose pipeline goes on from there."""
    wds = pytest.importorskip("webdataset")
    dataset = feeds.torch.dataset(path, batch=16, shuffle=True, seed=7)

    loader = wds.WebLoader(dataset, batch_size=None, num_workers=2).map(lambda batch: batch["id"])

    wanted = [batch["id"].tolist() for batch in feeds.Feed(path, batch=16, shuffle=True, seed=7)]
    assert [numbers.tolist() for numbers in loader] == wanted
