"""Snippets: what is copied runs, and gives what was on the screen."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations import snippets

NASTY = "a '\"\\ b$(x);`y`\n-é"


@pytest.fixture
def path(tmp_path):
    found = str(tmp_path / f"{NASTY}.safetensors")
    ferry.save({NASTY: np.arange(12).reshape(3, 4), "other": np.ones(3)}, found)
    return found


def run(program):
    names = {}
    exec(program, names)
    return names


def test_programs(path):
    """Names with quotes, newlines and signs of shells come through."""
    whole = run(snippets.of_tensor(path, NASTY).python)
    part = run(snippets.of_tensor(path, NASTY, (1, slice(0, 2))).python)

    assert (whole["tensor"] == np.arange(12).reshape(3, 4)).all()
    assert part["part"].tolist() == [4, 5]
    assert run(snippets.of_file(path).python)["info"].count == 2
    assert run(snippets.of_comparison(path, path).python)["report"].equal
    run(snippets.of_statistics(path).python)


def test_programs_for_rows(tmp_path):
    """Rows by number and by condition."""
    path = str(tmp_path / "x.tfrecord")
    with ferry.writer(path) as writer:
        writer.write_batch({"id": np.arange(10)})

    assert len(run(snippets.of_rows(path, 3, 7).python)["some"]) == 4
    assert len(run(snippets.of_rows(path, 0, 5, "id > 7").python)["rows"]) == 2
    assert run(snippets.of_column(path, "id").python)["found"].rows == 10


def test_commands(path, call):
    """A shell takes the line apart to what was meant, and the command runs."""
    for snippet in (
        snippets.of_file(path),
        snippets.of_tensor(path, NASTY),
        snippets.of_tensor(path, NASTY, (1, slice(0, 2))),
        snippets.of_statistics(path),
        snippets.of_comparison(path, path),
    ):
        ferry_, *arguments = shlex.split(snippet.command)
        assert ferry_ == "ferry"
        assert call(*arguments).code == 0


def test_path_that_looks_like_an_option():
    """A path that starts with a dash is not taken for an option."""
    assert snippets.of_file("-x.npz").command == "ferry info ./-x.npz"
