"""The claims of README: each that counts something, or says "every" or "all", is held by a test.

A claim is a sentence, an item or a cell of a table. `HELD` says where it is proved: a test, or a
benchmark, whose ratio is in docs/performance.md.
"""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

COUNTS = re.compile(
    r"(?<!\w)\d|\b(?:every|each|all|any|never|no|nothing|two|three|four|five|fifteen|same)\b",
    re.IGNORECASE,
)
SECURITY = (ROOT / "SECURITY.md").read_text()
# What a claim says, and the tests, benchmarks or files that hold it.
HELD = {
    "the same files, without the slow import": (
        "tests/formats/test_tensorproto.py::test_bytes_are_tensorflows",
        "tests/test_layout.py::test_importing_loads_no_framework",
        "benchmarks/bench_import.py",
    ),
    "There is no file format of our own": (
        "tests/formats/test_tensorproto.py::test_tensorflow_reads_ours",
        "tests/formats/test_npy.py::test_bytes_are_numpys",
        "tests/formats/test_npz.py::test_numpy_reads_ours",
        "tests/formats/test_safetensors.py::test_bytes_are_the_packages",
    ),
    "ragged, sparse and text tensors need pickle": (
        "tests/formats/test_npy.py::test_bfloat16_is_numpys_void",
        "tests/formats/test_npy.py::test_pickles_are_refused",
    ),
    "all of them round-trip": (
        "tests/formats/test_npy.py::test_every_dtype_survives_a_file",
        "tests/formats/test_npz.py::test_every_dtype_survives",
        "tests/formats/test_npz.py::test_numpy_reads_ours",
    ),
    "arrays only: no strings": (
        "tests/formats/test_safetensors.py::test_strings_sparse_and_ragged_are_parts",
    ),
    "the same files with those values inside": (
        "tests/formats/test_safetensors.py::test_bytes_are_the_packages",
        "tests/formats/test_safetensors.py::test_strings_sparse_and_ragged_are_parts",
    ),
    "TensorFlow on every machine": ("tests/test_wheel.py::test_wheel_in_an_empty_environment",),
    "the same bytes without TensorFlow": (
        "tests/formats/test_tensorproto.py::test_bytes_are_tensorflows",
        "tests/hostile/test_tfrecord.py::test_every_bit_flipped",
        "tests/hostile/test_tfrecord.py::test_cut_at_every_offset",
    ),
    "no pickle, no eval; every length": (
        "tests/test_house.py::test_nothing_is_unpickled_or_evaluated",
        "tests/hostile/test_tensorproto.py::test_content_of_another_size",
        "tests/hostile/test_tfrecord.py::test_enormous_length",
    ),
    "one format each": ("tests/formats/test_contract.py",),
    "one set of verbs for fifteen formats": (
        "tests/formats/test_contract.py::test_operations",
        "tests/operations/convert/test_conversion_pairs.py::test_pair",
    ),
    "34 questions and answers": ("tests/test_claims.py::test_counts",),
    "The five most common": ("tests/first_hour/test_recipes.py",),
    "Python 3.11 or later": ("release/matrix.py",),
    "tensorferry[all]": ("tests/test_release.py::test_extras",),
    "Apache-2.0": ("LICENSE",),
    "which test holds each promise": ("tests/test_claims.py::test_promises_name_tests",),
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


@pytest.mark.parametrize("place", sorted({place for places in HELD.values() for place in places}))
def test_what_holds_claims_exists(place):
    """The file is there, and has the test that is named."""
    path, _, name = place.partition("::")
    assert (ROOT / path).exists()
    assert not name or f"def {name}(" in (ROOT / path).read_text()


def test_promises_name_tests():
    """Every test and folder of tests that SECURITY.md names exists."""
    named = re.findall(r"`((?:tests/)?[\w/]*test\w*(?:/\w+)*(?:\.py)?)`", SECURITY)
    assert len(named) > 20

    known = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*")]
    missing = [name for name in named if not any(path.endswith(name) for path in known)]
    assert missing == []


def test_nothing_is_held_that_is_not_claimed():
    """Every entry is about a sentence of README."""
    said = "\n".join(claims())

    assert [claim for claim in HELD if claim not in said] == []


def test_counts():
    """The numbers of formats and recipes are as README says."""
    from tensorferry.formats.table import TABLE

    assert len(TABLE) == 15
    assert len(list((ROOT / "docs/recipes").glob("*.md"))) - 1 == 34
