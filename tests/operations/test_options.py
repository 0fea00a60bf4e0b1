"""Options of operations: named, typed, and refused where a format does not have them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.operations.list import list_tensors
from tensorferry.operations.schema import schema_of
from tensorferry.operations.select import select
from tensorferry.operations.show import excerpt

VERBS = {
    "inspect": ferry.inspect,
    "verify": ferry.verify,
    "diff": lambda path, **options: ferry.diff(path, path, **options),
    "hash": ferry.hash,
    "list": list_tensors,
    "schema": schema_of,
    "select": lambda path, **options: list(select(path, **options)),
    "show": excerpt,
    "stats": ferry.stats,
    "convert": lambda path, **options: ferry.convert(path, "out.npz", options=options),
}


@pytest.fixture(params=["one.npy", "rows.tfrecord"])
def path(request, tmp_path, monkeypatch):
    """A file of one column."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / request.param
    if found.suffix == ".npy":
        ferry.save(np.arange(3), found)
    else:
        with ferry.writer(found) as out:
            out.write_batch({"tensor": np.arange(3)})
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_refused(path, verb):
    """By the same sentence for every verb, with the nearest option that there is."""
    with pytest.raises(ferry.OptionError, match="has no option 'verfy'") as caught:
        VERBS[verb](path, verfy=False)
    assert caught.value.hint == "did you mean 'verify'?"


@pytest.mark.parametrize("verb", VERBS)
def test_known_options_are_taken(path, verb):
    """Options that the format has, and those that were not given."""
    VERBS[verb](path, verify=False, names=None)


@pytest.mark.parametrize(
    "function", [ferry.inspect, ferry.verify, ferry.diff, ferry.convert, ferry.hash, ferry.stats]
)
def test_help_lists_options(function):
    """`help()` shows every option by its name."""
    parameters = inspect.signature(function).parameters
    assert not [one for one in parameters.values() if one.kind is one.VAR_KEYWORD]
    assert "storage_options" in parameters
    assert {"on_error", "columns", "verify"} <= parameters.keys() or function is ferry.convert


def test_target_options(tmp_path):
    """Those of the target's format are named, and refused by others."""
    ferry.save({"a": np.zeros(1000)}, tmp_path / "a.npz")
    report = ferry.convert(tmp_path / "a.npz", tmp_path / "b.npz", compression="deflate", level=9)
    assert report.written
    with pytest.raises(ferry.OptionError, match="safetensors has no option 'level'"):
        ferry.convert(tmp_path / "a.npz", tmp_path / "b.safetensors", level=9)
