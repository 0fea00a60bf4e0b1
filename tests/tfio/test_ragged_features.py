"""Ragged features of Examples: partitions of every kind, as tf.io reads them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st
from strategies import same
from tfio.oracle import PARTITIONS, from_tf
from tfio.records import VALUES, example, sequences, strings

import tensorferry as ferry
from tensorferry import tfio


def partition_numbers(kind, lengths):
    """What a partition of a kind holds for rows of these lengths."""
    ends = list(itertools.accumulate(lengths))
    return {
        "RowSplits": [0, *ends],
        "RowLengths": lengths,
        "RowStarts": [0, *ends][:-1],
        "RowLimits": ends,
        "ValueRowIds": [row for row, length in enumerate(lengths) for _ in range(length)],
    }[kind]


@st.composite
def partitioned(draw, kinds):
    """One list with partitions of these kinds or uniform lengths, from the outside in."""
    lists, count = {}, draw(st.integers(0, 3))
    for level, kind in enumerate(kinds):
        if isinstance(kind, int):
            count *= kind
            continue
        lengths = [draw(st.integers(0, 2)) for _ in range(count)]
        if kind == "ValueRowIds" and lengths:
            lengths[-1] += 1  # a last row without values has no id
        lists[f"i{level}"] = partition_numbers(kind, lengths)
        count = sum(lengths)
    return {**lists, "f": draw(st.lists(VALUES["f"], min_size=count, max_size=count))}


def ragged(io, kinds, dtype):
    """A RaggedFeature for such lists."""
    partitions = [
        io.RaggedFeature.UniformRowLength(kind)
        if isinstance(kind, int)
        else getattr(io.RaggedFeature, kind)(f"i{level}")
        for level, kind in enumerate(kinds)
    ]
    return io.RaggedFeature("float32", "f", partitions, dtype, validate=True)


KINDS = st.lists(st.sampled_from([*PARTITIONS, 1, 2]), max_size=3)
FEWER = settings(max_examples=settings().max_examples // 2)  # TensorFlow takes long for these


@FEWER
@given(data=st.data(), kinds=KINDS, dtype=st.sampled_from(["int32", "int64"]))
def test_ragged_features(tf, data, kinds, dtype):
    """Partitions of every kind, up to three levels of them, make TensorFlow's rows."""
    records = [example(**one) for one in data.draw(st.lists(partitioned(kinds), max_size=3))]
    ours, theirs = ({"r": ragged(io, kinds, dtype)} for io in (tfio, tf.io))

    expected = from_tf(tf, tf.io.parse_example(strings(records), theirs))
    assert same(tfio.parse_example(strings(records), ours), expected)
    assert same(tfio.parse_example(strings(records), theirs), expected)
    for record in records:
        expected = from_tf(tf, tf.io.parse_single_example(record, theirs))
        assert same(tfio.parse_single_example(record, ours), expected)


@FEWER
@given(data=st.data(), kinds=KINDS, dtype=st.sampled_from(["int32", "int64"]))
def test_ragged_sequences(tf, data, kinds, dtype):
    """The same in each step of a sequence."""
    many = data.draw(st.lists(st.lists(partitioned(kinds), max_size=3), max_size=3))
    keys = ["f", *(f"i{level}" for level, kind in enumerate(kinds) if isinstance(kind, str))]
    records = [sequences(**{key: [step[key] for step in steps] for key in keys}) for steps in many]
    ours, theirs = ({"r": ragged(io, kinds, dtype)} for io in (tfio, tf.io))

    expected = from_tf(tf, tf.io.parse_sequence_example(strings(records), None, theirs))
    assert same(tfio.parse_sequence_example(strings(records), None, ours), expected)
    for record in records:
        expected = from_tf(tf, tf.io.parse_single_sequence_example(record, None, theirs))
        assert same(tfio.parse_single_sequence_example(record, None, ours), expected)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        *(("RowSplits", numbers) for numbers in ([], [0], [0, 2], [1, 3], [0, 4, 3], [0, -1, 3])),
        *(("RowLengths", numbers) for numbers in ([], [2], [4], [-1, 4], [2**62] * 4 + [3])),
        *(("RowStarts", numbers) for numbers in ([], [1], [0, 4], [0, 2, 1], [0, -(2**63)])),
        *(("RowLimits", numbers) for numbers in ([], [2], [4], [2, 1, 3], [2**63 - 1, 3])),
        *(("ValueRowIds", numbers) for numbers in ([], [0, 0], [0, 1, 0], [-1, 0, 0], [0] * 4)),
    ],
)
def test_partitions_must_fit(kind, numbers):
    """Rows that are not exactly the record's values are refused, which tf.io leaves to luck."""
    partition = getattr(tfio.RaggedFeature, kind)("i")
    described = {"r": tfio.RaggedFeature("float32", "f", [partition])}
    good = example(f=[], i=[0] if kind == "RowSplits" else [])
    bad = example(f=[1, 2, 3], i=numbers)

    with pytest.raises(ferry.FormatError, match=f"record 1: feature 'r' has 3.*{kind}\\('i'\\)"):
        tfio.parse_example([good, bad], described)
    with pytest.raises(ferry.FormatError):
        tfio.parse_single_example(bad, described)
    steps = sequences(f=[[1, 2, 3]], i=[numbers])
    with pytest.raises(ferry.FormatError, match="record 0: feature 'r' has 3"):
        tfio.parse_single_sequence_example(steps, None, described)


def test_uniform_rows_and_steps_must_fit():
    """So are values that uniform rows do not hold, and steps without their partition."""
    uniform = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.UniformRowLength(2)])
    with pytest.raises(ferry.FormatError, match="record 1: feature 'r' has 3 elements for rows"):
        tfio.parse_example(
            [example(i=[1, 2]), example(i=[1, 2, 3]), example(i=[4])], {"r": uniform}
        )
    split = tfio.RaggedFeature("int64", "i", [tfio.RaggedFeature.RowLengths("i0")])
    with pytest.raises(ferry.FormatError, match="sequence 'i0' has 1 steps, expected 2"):
        tfio.parse_single_sequence_example(sequences(i=[[1], [2]], i0=[[1]]), None, {"r": split})


def test_refused_ragged_features():
    """Nor can splits be of another dtype than int32 and int64, or partitions of another class."""
    for fields in (
        {"row_splits_dtype": "int8"},
        {"partitions": ["i"]},
        {"partitions": [tfio.RaggedFeature.UniformRowLength(0)]},
    ):
        with pytest.raises(ferry.UnsupportedError, match="feature 'i'"):
            tfio.parse_example([example(i=[1])], {"i": tfio.RaggedFeature("int64", **fields)})
