"""Examples that cannot be parsed: an error names the record and the feature."""

from __future__ import annotations

import pytest
from tfio.records import example, sequences

import tensorferry as ferry
from tensorferry import limits, tfio


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (tfio.FixedLenFeature([], "int64"), "record 1: feature 'i' has 2 values, expected 1"),
        (tfio.FixedLenFeature([], "float32"), "record 0, byte 11: feature 'i' holds int64"),
        (tfio.FixedLenSequenceFeature([2], "int64", True), "record 0: feature 'i' has 1 values"),
        (tfio.SparseFeature("i", "i", "int64", 5), "record 1: feature 'i' has the index 5 in 'i'"),
        (tfio.SparseFeature("i", "j", "int64", 5), "record 0: feature 'i' has 0 values and 1 ind"),
    ],
)
def test_errors_name_the_record(described, text):
    """An error names the record, by its number or its name, and the feature."""
    records = [example(i=[1]), example(i=[4, 5])]
    with pytest.raises(ferry.FormatError) as raised:
        tfio.parse_example(records, {"i": described})
    assert str(raised.value).startswith(text)

    names = ["first", "second"]
    with pytest.raises(ferry.FormatError) as raised:
        tfio.parse_example(records, {"i": described}, names)
    assert raised.value.path == names[int(text[7])]
    with pytest.raises(ferry.UnsupportedError, match="1 example_names, expected 2"):
        tfio.parse_example(records, {"i": described}, ["first"])


def test_missing_features_are_named():
    """A required feature or sequence that a record lacks is named with the record."""
    records = [example(i=[1]), example(i0=[1])]
    with pytest.raises(ferry.FormatError, match="record 1: feature 'i' is missing"):
        tfio.parse_example(records, {"i": tfio.FixedLenFeature([], "int64")})
    records = [sequences(i=[]), sequences(i=[[1]]), b""]
    with pytest.raises(ferry.FormatError, match="record 2: sequence 'i' is missing"):
        tfio.parse_sequence_example(records, None, {"i": tfio.FixedLenSequenceFeature([], "int64")})
    with pytest.raises(ferry.FormatError, match="record 1: a step of 'i' has 1 values"):
        tfio.parse_sequence_example(
            records, None, {"i": tfio.FixedLenSequenceFeature([2], "int64", True)}
        )


def test_names_with_braces():
    """The names of features are not taken for anything but names."""
    with pytest.raises(ferry.FormatError, match=r"feature 'i\{0\}%s' has 1 values"):
        tfio.parse_example(
            [example(**{"i{0}%s": [1]})], {"i{0}%s": tfio.FixedLenFeature([2], "int64")}
        )


def test_a_few_bytes_ask_for_much(monkeypatch):
    """Row ids and filling up stay within the limit for what the bytes do not hold."""
    ids = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.ValueRowIds("i")])
    for number in (2**40, 2**62, 2**63 - 1):
        with pytest.raises(ferry.FormatError):
            tfio.parse_example([example(i=[number])] * 3, {"r": ids})
    monkeypatch.setattr(limits, "memory", 1000)
    records = [example(i=[1] * 1000), *[b""] * 1000]
    with pytest.raises(ferry.LimitError, match="filled up takes 8008000 bytes"):
        tfio.parse_example(records, {"i": tfio.FixedLenSequenceFeature([], "int64", True)})


EVERYTHING = {
    "s0": tfio.VarLenFeature("string"),
    "f0": tfio.FixedLenFeature([2], "float32", [0, 1]),
    "i0": tfio.FixedLenSequenceFeature([], "int64", True),
    "i1": tfio.RaggedFeature("int64", None, [tfio.RaggedFeature.RowLengths("i2")]),
    "x": tfio.SparseFeature("i3", "f3", "float32", 9),
}
WHOLE = example(s0=[b"ab", b""], f0=[1, 2], i0=[3, -1], i1=[5, 6, 7], i2=[1, 2], i3=[8], f3=[4])
STEPS = {key: EVERYTHING[key] for key in ("s0", "i1")}
WHOLE_STEPS = sequences(s0=[[b"ab"], []], i1=[[5, 6], [7]], i2=[[1, 1], [1]]) + WHOLE


def damaged(data):
    """Every beginning of some bytes, and every one of their bits flipped."""
    yield from (data[:end] for end in range(len(data)))
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        yield bytes(flipped)


def test_damaged_records():
    """A record that is cut or has a bit flipped gives values or a FerryError, nothing else."""
    context = {key: EVERYTHING[key] for key in ("s0", "f0", "i1")}
    assert tfio.parse_example([WHOLE], EVERYTHING)
    assert tfio.parse_sequence_example([WHOLE_STEPS], context, STEPS)
    errors = 0
    for parse, data in (
        (lambda record: tfio.parse_example([record], EVERYTHING), WHOLE),
        (lambda record: tfio.parse_example(record, EVERYTHING), WHOLE),
        (lambda record: tfio.parse_sequence_example([record], context, STEPS), WHOLE_STEPS),
        (lambda record: tfio.parse_single_sequence_example(record, context, STEPS), WHOLE_STEPS),
    ):
        for record in damaged(data):
            try:
                parse(record)
            except ferry.FerryError as error:
                errors += 1
                assert error.path == "record 0"
    assert errors > 1000
