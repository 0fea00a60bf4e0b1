"""The claims of README: each that counts something, or says "every" or "all", is held by a test.

A claim is a sentence, an item or a cell of a table. `HELD` says where it is proved: a test, or a
benchmark, whose ratio is in docs/performance.md.
"""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

COUNTS = re.compile(
    r"(?<!\w)\d|\b(?:every|each|all|any|never|no|nothing|two|three|four|five|fifteen|thirty|same)\b",
    re.IGNORECASE,
)
# What a claim says, and what holds it.
HELD = {
    "the same bytes, no import": "tests/tfio/test_tensors.py",
    "import of three seconds": "benchmarks/bench_import.py",
    "all of them, in files that `np.load` still reads": "tests/formats/test_npz.py",
    "no bfloat16 or float8, no ragged": "tests/formats/test_npy.py",
    "no strings, sparse, ragged or nested values": "tests/formats/test_safetensors.py",
    "the same files, with those values inside": "tests/formats/test_safetensors.py",
    "TensorFlow on every machine": "tests/test_wheel.py",
    "the same bytes without TensorFlow; an error": "tests/hostile/test_tfrecord.py",
    "no pickle, no eval; every length": "tests/hostile/test_tensorproto.py",
    "convert fifteen formats": "tests/operations/convert/test_conversion_pairs.py",
    "one format each": "tests/formats/test_contract.py",
    "thirty recipes": "tests/test_docs.py",
    "every format](": "tests/test_layout.py",
    "The first five": "tests/first_hour/test_recipes.py",
    "tensorferry[all]": "tests/test_release.py",
    "Python 3.11 or later": "pyproject.toml",
    "Apache-2.0": "LICENSE",
    "There is no file format of our own": "tests/formats/test_contract.py",
}


def claims() -> list[str]:
    """The sentences, items and cells of README that count something."""
    text = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    text = re.sub(r"^#.*$|^!\[.*$|^\|[-:| ]+\|$", "", text, flags=re.MULTILINE)
    found = []
    for block in re.split(r"\n\s*\n|\n(?=[-|])", text):
        cells = block.strip("|").split("|") if block.lstrip().startswith("|") else [block]
        for cell in cells:
            flat = " ".join(cell.split())
            found += re.split(r"(?<=\.)\s", flat)
    plain = [re.sub(r"\]\([^)]*\)", "](", claim) for claim in found]
    return [claim for claim in plain if COUNTS.search(claim)]


@pytest.mark.parametrize("claim", claims())
def test_a_claim_is_held(claim):
    """Something in the project proves it."""
    assert any(said in claim for said in HELD), f"what holds this? {claim}"


@pytest.mark.parametrize("place", sorted(set(HELD.values())))
def test_what_holds_claims_exists(place):
    """The tests and benchmarks that are named are there."""
    assert (ROOT / place).exists()


def test_nothing_is_held_that_is_not_claimed():
    """Every entry is about a sentence of README."""
    said = "\n".join(claims())

    assert [claim for claim in HELD if claim not in said] == []


def test_counts():
    """The numbers of formats and recipes are as README says."""
    from tensorferry.formats.table import TABLE

    assert len(TABLE) == 15
    assert len(list((ROOT / "docs/recipes").glob("*.md"))) - 1 == 30
