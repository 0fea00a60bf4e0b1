"""Every public function has an example in its docstring, and it runs."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.cards import Shown

# Errors and reports are given, not called.
PUBLIC = [
    getattr(ferry, name)
    for name in ferry.__all__
    if callable(getattr(ferry, name)) and not name.endswith("Error")
]
CALLED = [
    thing
    for thing in [*PUBLIC, ferry.feeds.Feed]
    if not (inspect.isclass(thing) and issubclass(thing, Shown | tuple) and thing is not ferry.Rows)
]
# What opening and loading give; README and docs show them.
GIVEN = {"LoadedModel", "LoadedSignature", "ModelInfo", "Records", "Table", "TensorInfo", "View"}


@pytest.mark.parametrize(
    "thing", [one for one in CALLED if one.__name__ not in GIVEN], ids=lambda one: one.__name__
)
def test_examples(thing, tmp_path, monkeypatch):
    """The example in the docstring gives what it says."""
    monkeypatch.chdir(tmp_path)
    names = {"ferry": ferry, "np": np}
    text = inspect.getdoc(thing) or ""
    test = doctest.DocTestParser().get_doctest(text, names, thing.__name__, None, None)
    assert test.examples, f"{thing.__name__} has no example"

    said: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)

    assert not said, "".join(said)
