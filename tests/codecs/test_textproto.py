"""Text protos, the form in which TensorFlow Metadata keeps its schemas."""

from __future__ import annotations

import re

import pytest
from conftest import CORPUS
from hypothesis import given, strategies as st

from tensorferry import limits
from tensorferry.codecs import textproto
from tensorferry.errors import FormatError
from tensorferry.rows.schema import as_schema


def test_textproto_depth(monkeypatch):
    """Nesting is bounded by the limit, not by Python's stack."""
    monkeypatch.setattr(limits, "depth", 100_000)
    message = textproto.parse("a {" * 50_000 + "b: 1" + "}" * 50_000)

    for _ in range(50_000):
        message = message.last("a")
    assert message.fields == [("b", 1)]


@given(st.binary())
def test_textproto_strings(data):
    """Any bytes, quoted, are read as they were."""
    assert textproto.parse(f"a: {textproto.quote(data)}").last("a") == data


WORDS = st.sampled_from(
    ["a", "b_1", "true", "INT", "inf", "NaN", "0", "7", "017", "0x1F", "1.5", "9" * 19]
)
STRINGS = st.sampled_from(['"x"', "'y'", '"\\n"', '"x" "y"', '""'])
FIELDS = st.recursive(
    st.tuples(st.sampled_from(["a: ", "b:", "a :"]), WORDS | STRINGS).map("".join),
    lambda inner: st.tuples(
        st.sampled_from(["a {{{}}}", "b: {{ {} }}", "c <{}>", "d: [{{{}}}]"]),
        st.lists(inner, max_size=3).map(" ".join),
    ).map(lambda pair: pair[0].format(pair[1])),
)


def without_offsets(message):
    return [
        (name, without_offsets(value) if isinstance(value, textproto.Message) else repr(value))
        for name, value in message.fields
    ]


@given(st.lists(FIELDS, max_size=4).map(" ".join), st.integers(0, 1 << 30))
def test_textproto_usual_fields(text, seed):
    """Fields in the usual form are those that they are between comments, and so are errors."""
    # A comment is not of the usual form.
    tokens = re.findall(r"""[\w.]+|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s]""", text)
    commented = " ".join(f"{token} #\n" for token in tokens)
    cut = seed % (len(tokens) + 1)
    for usual, other in [
        (text, commented),
        (" ".join(tokens[:cut]), " ".join(f"{token} #\n" for token in tokens[:cut])),
    ]:
        try:
            expected = without_offsets(textproto.parse(other))
        except FormatError as error:
            with pytest.raises(type(error)):
                textproto.parse(usual)
        else:
            assert without_offsets(textproto.parse(usual)) == expected


@pytest.mark.skipif(not CORPUS.exists(), reason="no corpus")
def test_text_of_corpus():
    """Every text proto there is parsed; those that are TFMD schemas are read."""
    for path in CORPUS.rglob("*.pbtxt"):
        message = textproto.parse(path.read_bytes())
        assert message.fields
        if path.name == "schema.pbtxt":
            assert len(as_schema(path))
