"""Feeds in PyTorch: ranks, workers, resuming, and a model trained to the same loss."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

import tensorferry as ferry  # noqa: E402
from tensorferry import feeds  # noqa: E402
from tensorferry.errors import OptionError, UnsupportedError  # noqa: E402

ROWS = 230


@pytest.fixture(scope="module", params=["plain", "gzip", "parquet"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp(request.param)
    numbers = np.arange(ROWS)
    columns = {
        "id": numbers,
        "x": np.random.default_rng(0).random((ROWS, 4), dtype=np.float32),
        "y": (numbers % 3).astype(np.float32),
    }
    for number, rows in enumerate(np.array_split(numbers, 3)):
        part = {name: column[rows] for name, column in columns.items()}
        if request.param == "parquet":
            ferry.save(part, folder / f"p-{number}.parquet", rows=True, batch_rows=20)
        else:
            compression = None if request.param == "plain" else "gzip"
            with ferry.writer(folder / f"p-{number}.tfrecord", compression=compression) as out:
                out.write_batch(part)
    return f"{folder}/p-*"


def ids(batch: Any) -> list[int]:
    found: list[int] = batch["id"].tolist()
    return found


HOW: dict[str, Any] = {"batch": 16, "shuffle": True, "seed": 4, "window": 64}


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_any_number_of_workers_gives_the_same_batches(path: str, workers: int) -> None:
    feed = feeds.Feed(path, **HOW)
    wanted = [[ids(batch) for batch in feed] for _ in range(2)]
    loader = feeds.torch.loader(path, workers=workers, **HOW)
    found = [[ids(batch) for batch in loader] for _ in range(2)]
    assert found == wanted
    assert loader.epoch == 2
    batch = next(iter(loader))
    assert isinstance(batch["x"], torch.Tensor)
    assert batch["x"].dtype == torch.float32


def test_a_loop_goes_on_with_another_number_of_workers(path: str) -> None:
    wanted = [ids(batch) for batch in feeds.Feed(path, **HOW)]
    for step in (1, 5, 14):
        loader = feeds.torch.loader(path, workers=2, **HOW)
        running = iter(loader)
        assert [ids(next(running)) for _ in range(step)] == wanted[:step]
        state = json.loads(json.dumps(loader.state_dict()))
        del running
        for workers in (0, 3):
            resumed = feeds.torch.loader(path, workers=workers, **HOW)
            resumed.load_state_dict(state)
            assert [ids(batch) for batch in resumed] == wanted[step:]


def test_options_as_a_data_loader_calls_them(path: str) -> None:
    for option, meant in (("num_workers", "workers"), ("batch_size", "batch")):
        with pytest.raises(OptionError, match=f"did you mean '{meant}'"):
            feeds.torch.loader(path, **{option: 2})  # type: ignore[misc]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_in_a_loader_of_the_users_own(path: str, workers: int) -> None:
    wanted = [ids(batch) for batch in feeds.Feed(path, **HOW)]
    dataset = feeds.torch.dataset(path, **HOW)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    assert [ids(batch) for batch in loader] == wanted
    dataset.set_epoch(0)
    assert [ids(batch) for batch in loader] == wanted


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_dataloader_goes_on(path: str, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def make() -> Any:
        dataset = feeds.torch.dataset(path, **HOW)
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    wanted = [ids(batch) for batch in feeds.Feed(path, **HOW)]
    loader = make()
    running = iter(loader)
    assert [ids(next(running)) for _ in range(5)] == wanted[:5]
    state = loader.state_dict()
    del running
    resumed = make()
    resumed.load_state_dict(state)
    assert [ids(batch) for batch in resumed] == wanted[5:]


def test_a_map_style_dataset_gives_batches(path: str) -> None:
    if "gzip" in path or "parquet" in path:
        with pytest.raises(UnsupportedError, match="one by one"):
            feeds.torch.rows(path)
        return
    dataset = feeds.torch.rows(path, columns=["id", "x"])
    assert len(dataset) == ROWS
    assert dataset[7]["id"] == 7
    loader = DataLoader(
        dataset, batch_size=32, shuffle=True, num_workers=2, collate_fn=dataset.collate
    )
    found = [ids(batch) for batch in loader]
    assert sorted(number for batch in found for number in batch) == list(range(ROWS))
    ours = next(iter(DataLoader(dataset, batch_size=5, collate_fn=dataset.collate)))
    theirs = next(iter(DataLoader(dataset, batch_size=5)))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    rows = dataset.__getitems__([3, 1])
    assert (len(rows), [int(row["id"]) for row in rows]) == (2, [3, 1])


def _rank(rank: int, world: int, path: str, folder: str) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    found = [ids(batch) for batch in feeds.torch.loader(path, workers=2, **HOW)]
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def test_ranks_of_torch_distributed_share_the_rows(path: str, tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_rank, (2, path, str(tmp_path)), nprocs=2)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    seen = [number for batches in found for batch in batches for number in batch]
    assert sorted(seen) == list(range(ROWS))
    assert abs(len(found[0]) - len(found[1])) <= 1


def _train(path: str, epochs: int, *, stop: int | None = None, state: Any = None) -> Any:
    """Losses of a small model, and what is needed to go on."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loader = feeds.torch.loader(path, **HOW)
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
    losses = []
    while loader.epoch < epochs:
        for batch in loader:
            loss = ((model(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == stop:
                return losses, {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "loader": json.loads(json.dumps(loader.state_dict())),
                }
    return losses, None


@pytest.mark.parametrize("stop", [3, 15, 22])
def test_training_that_was_killed_goes_on_bit_for_bit(path: str, stop: int) -> None:
    whole, _ = _train(path, 2)
    before, state = _train(path, 2, stop=stop)
    after, _ = _train(path, 2, state=state)
    assert before + after == whole


_LOOP = """
import json, os, signal, sys
import torch
from tensorferry import feeds

path, folder, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = feeds.torch.loader(path, batch=16, shuffle=True, seed=4, window=64)
saved, losses = folder + "/state.pt", []
if os.path.exists(saved):
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])
    losses = state["losses"]
while loader.epoch < 2:
    for batch in loader:
        loss = ((model(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "loader": loader.state_dict(), "losses": losses}
        torch.save(state, saved + ".new")
        os.replace(saved + ".new", saved)
        if len(losses) == stop:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_was_killed_is_gone_on_with(path: str, tmp_path: Path) -> None:
    """Two processes end by kill -9, a third goes on: the losses are those of one that was not."""
    if "plain" not in path:
        return  # other files go on in the tests above; processes take long
    for stop in (6, 15, 0):
        done = subprocess.run(
            [sys.executable, "-c", _LOOP, path, str(tmp_path), str(stop)], check=False
        )
        assert done.returncode == (-signal.SIGKILL if stop else 0)
    whole, _ = _train(path, 2)
    assert torch.load(tmp_path / "state.pt")["losses"] == whole


def test_ragged_columns_have_to_be_padded(tmp_path: Path) -> None:
    with ferry.writer(tmp_path / "r.tfrecord") as out:
        out.write({"t": np.arange(3)})
        out.write({"t": np.arange(5)})
    with pytest.raises(UnsupportedError, match="pad="):
        list(feeds.torch.loader(tmp_path / "r.tfrecord", infer="all"))
    (batch,) = feeds.torch.loader(tmp_path / "r.tfrecord", infer="all", pad={"t": -1})
    assert batch["t"].tolist() == [[0, 1, 2, -1, -1], [0, 1, 2, 3, 4]]


def test_tensors_share_the_memory_of_the_batch() -> None:
    """Arrays of numbers are not copied, unless they cannot be written to."""
    batch = {
        "x": np.arange(6.0).reshape(2, 3),
        "id": np.arange(2),
        "text": np.array([b"a"], object),
    }
    tensors = feeds.torch.as_tensors(batch)
    assert tensors["x"].data_ptr() == batch["x"].ctypes.data
    assert tensors["id"].data_ptr() == batch["id"].ctypes.data
    assert tensors["text"] is batch["text"]
    batch["x"].flags.writeable = False
    assert feeds.torch.as_tensors(batch)["x"].data_ptr() != batch["x"].ctypes.data


def test_a_feed_of_torch_tensors_gives_the_batches_of_its_columns(path: str) -> None:
    how: dict[str, Any] = {"batch": 16, "shuffle": True, "seed": 1, "columns": ["id"]}
    found = [batch["id"] for batch in feeds.Feed(path, **how, to="torch")]
    wanted = [batch["id"] for batch in feeds.Feed(path, **how)]
    assert all(isinstance(one, torch.Tensor) for one in found)
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]
