"""safetensors in several files: which names they get, and which files are removed."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tensorferry as ferry
from tensorferry.formats.safetensors import shards

USUAL = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"]
INDEX = "m.safetensors.index.json"
LATER = re.compile(r"m-[0-9a-f]{8}-0000[12]-of-00002\.safetensors")


def save(folder, number):
    """Writes two tensors of a number into two files."""
    value = {"a": np.full(3, number), "b": np.full(3, number)}
    return ferry.save(value, folder / "m.safetensors", shard_size=24, durable=False)


def numbers(folder):
    """The numbers in the model."""
    return {int(n) for value in ferry.load(folder / "m.safetensors").values() for n in value}


def files(folder):
    """The files of a folder."""
    return sorted(os.listdir(folder))


def test_first_names(tmp_path):
    """A new model has the names that everybody expects, and safetensors reads each file."""
    save(tmp_path, 1)
    assert files(tmp_path) == [*USUAL, INDEX]
    assert load_file(tmp_path / USUAL[0])["a"].tolist() == [1, 1, 1]


def test_later_names_are_new(tmp_path):
    """No name is used twice, and the files of the model before are gone."""
    used = set()
    for number in range(5):
        save(tmp_path, number)
        found = set(files(tmp_path)) - {INDEX}
        assert len(found) == 2
        assert not found & used
        assert number == 0 or all(map(LATER.fullmatch, found))
        used |= found
        assert numbers(tmp_path) == {number}


def test_an_index_without_its_files(tmp_path):
    """An index whose files are missing does not make a save remove what it has just written."""
    save(tmp_path, 1)
    for name in USUAL:
        (tmp_path / name).unlink()
    saved = save(tmp_path, 2)
    assert numbers(tmp_path) == {2}
    assert all(os.path.exists(name) for name in saved.files)


@pytest.mark.parametrize("kind", ["others", "alike", "named by the index of another"])
def test_a_hostile_index(tmp_path, kind):
    """An index decides nothing about what is removed, whichever files it names."""
    victims = {
        "others": ["precious.txt", "other.safetensors"],
        "alike": ["m-00007-of-00009.safetensors", "m-01234567-00001-of-00002.safetensors"],
        "named by the index of another": ["m-00001-of-00001.safetensors"],
    }[kind]
    for name in victims:
        about = {shards.BELONGS: "n.safetensors.index.json"} if "another" in kind else None
        save_file({"a": np.zeros(3)}, tmp_path / name, metadata=about)
    tree = {"weight_map": {str(n): name for n, name in enumerate(victims)}}
    (tmp_path / INDEX).write_text(json.dumps(tree))
    for number in (1, 2):
        save(tmp_path, number)
        assert numbers(tmp_path) == {number}
    assert set(victims) < set(files(tmp_path))
    assert len(files(tmp_path)) == len(victims) + 3


def test_what_a_killed_writer_left(tmp_path):
    """Files of ours that no index leads to are removed by the next save."""
    save(tmp_path, 1)
    (tmp_path / INDEX).unlink()
    save(tmp_path, 2)
    assert len(files(tmp_path)) == 3
    assert numbers(tmp_path) == {2}


def test_one_file_before(tmp_path):
    """A model of one file that is saved as several is not read instead of them."""
    ferry.save({"a": np.zeros(3)}, tmp_path / "m.safetensors")
    save(tmp_path, 2)
    assert numbers(tmp_path) == {2}
    assert files(tmp_path) == [*USUAL, INDEX]


def test_names_like_these(tmp_path):
    """Files that are somebody else's stay, though their names are those that a model would get."""
    save_file({"x": np.zeros(3)}, tmp_path / USUAL[0])
    save(tmp_path, 2)
    assert load_file(tmp_path / USUAL[0])["x"].tolist() == [0, 0, 0]
    assert numbers(tmp_path) == {2}
