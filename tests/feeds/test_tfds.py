"""Datasets that TensorFlow Datasets prepared: splits, parts of splits, nested steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CORPUS

import tensorferry as ferry
from tensorferry import feeds
from tensorferry.errors import FerryError, FormatError, UnsupportedError

LENGTHS = [30, 0, 45, 25]


def entry(name: str, lengths: list[int], **more: Any) -> dict[str, Any]:
    return {"name": name, "shardLengths": [str(length) for length in lengths], **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tensor = {"pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor"}
    scalar = {**tensor, "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"}}
    features = {
        "pythonClassName": "tensorflow_datasets.core.features.features_dict.FeaturesDict",
        "featuresDict": {"features": {"id": scalar}},
    }
    template = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    info = {
        "name": "mine",
        "version": "1.0.0",
        "fileFormat": "tfrecord",
        "splits": [entry("train", LENGTHS, filepathTemplate=template), entry("test", [7])],
    }
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    (tmp_path / "features.json").write_text(json.dumps(features))
    for split, lengths in (("train", LENGTHS), ("test", [7])):
        first = 0
        for number, length in enumerate(lengths):
            path = tmp_path / f"mine-{split}.tfrecord-{number:05}-of-{len(lengths):05}"
            with ferry.writer(path, format="tfrecord") as out:
                for row in range(first, first + length):
                    out.write({"id": row})
            first += length
    return tmp_path


def ids(rows: Any) -> list[int]:
    return [int(row["id"]) for row in rows]


def test_splits_have_sizes(folder: Path) -> None:
    assert feeds.tfds.sizes(folder) == {"train": 100, "test": 7}


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", range(100)),
        ("test", range(7)),
        ("train[:10%]", range(10)),
        ("train[-5%:]", range(95, 100)),
        ("train[29:31]", range(29, 31)),
        ("train[30:75]", range(30, 75)),
        ("train[90:500]", range(90, 100)),
        ("train[20:10]", range(0)),
        ("test[:50%]", range(4)),
    ],
)
def test_parts_of_splits(folder: Path, split: str, expected: range) -> None:
    rows = feeds.tfds.rows(folder, split)
    assert len(rows) == len(expected)
    assert ids(rows) == list(expected)
    if expected:
        found = [batch["id"].tolist() for batch in feeds.Feed(rows, batch=8, shuffle=True)]
        assert sorted(number for batch in found for number in batch) == list(expected)


def test_a_part_of_a_part(folder: Path) -> None:
    rows = feeds.tfds.rows(folder, "train[10:90]").between(15, 40)
    assert ids(rows) == list(range(25, 50))
    with pytest.raises(IndexError):
        rows.between(0, 26)


def test_what_is_not_there(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="there are train, test"):
        feeds.tfds.rows(folder, "validation")
    with pytest.raises(UnsupportedError, match="no split"):
        feeds.tfds.rows(folder, "train[:10%")


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"name": 1, "splits": [3]}', '{"name": "a", "splits": []}', "nonsense",
     '{"name": "../../etc/passwd", "splits": [{"name": "x", "shardLengths": ["1"]}]}'],
)  # fmt: skip
def test_hostile_descriptions_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dataset_info.json").write_text(text)
    with pytest.raises(FerryError):
        feeds.tfds.rows(tmp_path, "x")


def test_episodes_of_rlds() -> None:
    folder = CORPUS / "tfds/robotics/dummy_data/bridge/1.0.0"
    if not folder.exists():
        pytest.skip("the corpus is not here")
    rows = feeds.tfds.rows(folder, "train")
    (episode,) = list(rows)
    steps = len(episode["steps/reward"])
    assert steps > 1
    assert np.shape(episode["steps/observation/state"]) == (steps, 7)
    assert len(episode["steps/observation/natural_language_instruction"]) == steps


def test_nested_steps_are_ragged_columns(tmp_path: Path) -> None:
    """Episodes that TensorFlow Datasets wrote, with steps of steps, by name and by shape."""
    tfds = pytest.importorskip("tensorflow_datasets")
    state = tfds.features.Tensor(shape=(7,), dtype=np.float32)
    step = {"reward": np.float32, "observation": {"state": state, "text": tfds.features.Text()}}

    def episode(number: int) -> dict[str, Any]:
        return {
            "number": number,
            "steps": [
                {
                    "reward": float(place),
                    "observation": {"state": np.full(7, place, "f4"), "text": f"{number}-{place}"},
                }
                for place in range(number + 2)
            ],
        }

    class Walks(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        code_path = None  # a class of a test is no package

        def _info(self) -> Any:
            features = {"number": np.int64, "steps": tfds.features.Dataset(step)}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, _: Any) -> Any:
            return {"train": ((number, episode(number)) for number in range(5))}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    builder = Walks(data_dir=tmp_path)
    builder.download_and_prepare()
    rows = feeds.tfds.rows(builder.data_dir, "train[:60%]")
    assert len(rows) == 3
    for row in feeds.tfds.rows(builder.data_dir, "train"):
        number = int(row["number"])
        assert row["steps/reward"].tolist() == list(range(number + 2))
        assert row["steps/observation/state"].shape == (number + 2, 7)
        assert row["steps/observation/text"][1] == f"{number}-1".encode()
    how: Any = {"batch": 5, "pad": {"steps/reward": (-1, 6)}}
    (batch,) = feeds.Feed(feeds.tfds.rows(builder.data_dir, "train"), **how)
    assert batch["steps/reward"].shape == (5, 6)


def test_it_reads_as_tensorflow_datasets_does(folder: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    builder = tfds.builder_from_directory(folder)
    for split in ("train", "train[:10%]", "train[33:77]", "test[-30%:]"):
        theirs = [int(row["id"]) for row in builder.as_dataset(split=split).as_numpy_iterator()]
        assert sorted(theirs) == ids(feeds.tfds.rows(folder, split))


def test_a_description_that_promises_more_rows_is_refused(folder: Path) -> None:
    path = folder / "dataset_info.json"
    path.write_text(path.read_text().replace('"25"', '"90"'))
    with pytest.raises(FormatError, match="fewer rows"):
        feeds.tfds.rows(folder, "train[100:150]")
    path.write_text(path.read_text().replace('"90"', '"-1"'))
    with pytest.raises(FormatError, match="shardLengths"):
        feeds.tfds.rows(folder, "train")


def test_a_damaged_description_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text("{")
    with pytest.raises(FormatError, match="dataset_info"):
        feeds.tfds.sizes(tmp_path)
