"""Typed JSON against the standard library's reader, and hostile texts."""

from __future__ import annotations

import base64
import contextlib
import inspect
import json
import math
import struct
import sys
from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from strategies import arrays, ragged_tensors, same, sparse_tensors

import tensorferry as ferry
from tensorferry.formats.contract import Glimpse
from tensorferry.formats.detect import recognise

Point = namedtuple("Point", "x y")

TENSORS = st.one_of(arrays(), ragged_tensors(), sparse_tensors())

STRUCTURES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.binary(max_size=20),
        TENSORS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=8) | st.just("$type"), inner, max_size=4),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=8,
)


def dumps(value, **options):
    return ferry.dumps(value, format="json", **options)


def loads(data, **options):
    """Reads bytes, a text, or what is to be one."""
    if isinstance(data, dict):
        data = json.dumps(data)
    return ferry.loads(data.encode() if isinstance(data, str) else data, format="json", **options)


def typed(kind, **fields):
    """An object as it stands in the text."""
    return {"$type": kind, **fields}


def tensor(**fields):
    return typed("tensor", **{"dtype": "int32", "shape": [2], **fields})


def sparse(indices):
    shape = tensor(dtype="int64", shape=[1], values=[3])
    return typed("sparse", indices=indices, values=tensor(shape=[1], values=[7]), dense_shape=shape)


def ragged(*splits):
    return typed("ragged", flat_values=tensor(values=[1, 2]), nested_row_splits=splits)


def namedtuple_of(*fields, values=(1,)):
    return typed("namedtuple", name="P", fields=fields, values=values)


def refuse(literal):
    raise AssertionError(f"{literal} is no standard JSON")


@given(STRUCTURES, st.sampled_from([0, 2, 32, 1000]))
def test_roundtrip(value, inline):
    """Every value comes back as it was: kinds, order of keys, dtypes and every bit."""
    assert same(loads(dumps(value, inline=inline)), value)


@given(STRUCTURES)
def test_standard_json(value):
    """The text is standard JSON in UTF-8, and the same each time."""
    data = dumps(value)

    json.loads(data.decode(), parse_constant=refuse)
    assert dumps(value) == data


@given(st.binary(min_size=8, max_size=8))
def test_float_bits(bits):
    """A Python float keeps every bit, those of a NaN too."""
    (value,) = struct.unpack("<d", bits)

    assert struct.pack("<d", loads(dumps(value))) == bits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ([True, 1, -0.0, 1e300, "é\n"], '[true,1,-0.0,1e+300,"é\\n"]'),
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
        (10**40, "1" + "0" * 40),
        ((1,), '{"$type":"tuple","values":[1]}'),
        (
            Point(1, 2),
            '{"$type":"namedtuple","name":"Point","fields":["x","y"],"values":[1,2]}',
        ),
        (b"\xff", '{"$type":"bytes","base64":"/w=="}'),
        (math.nan, '{"$type":"float","value":"nan"}'),
        (-math.inf, '{"$type":"float","value":"-inf"}'),
        ({"$type": 1}, '{"$type":"dict","items":[["$type",1]]}'),
        (
            np.array([[0.1], [1 / 3]], np.float32),
            '{"$type":"tensor","dtype":"float32","shape":[2,1],"values":[[0.1],[0.33333334]]}',
        ),
        (
            np.array([0.1, 1 / 3, -0.0], ml_dtypes.bfloat16),
            '{"$type":"tensor","dtype":"bfloat16","shape":[3],"values":[0.1,0.334,-0.0]}',
        ),
        (
            np.array([0.1], np.float16),
            '{"$type":"tensor","dtype":"float16","shape":[1],"values":[0.1]}',
        ),
        (
            np.array(-8, ml_dtypes.int4),
            '{"$type":"tensor","dtype":"int4","shape":[],"values":-8}',
        ),
        (
            np.array([True]),
            '{"$type":"tensor","dtype":"bool","shape":[1],"values":[true]}',
        ),
        (
            np.array([np.inf], np.float32),
            '{"$type":"tensor","dtype":"float32","shape":[1],"base64":"AACAfw=="}',
        ),
        (
            np.array(1j, np.complex64),
            '{"$type":"tensor","dtype":"complex64","shape":[],"base64":"AAAAAAAAgD8="}',
        ),
        (
            np.array([b"a", b"\xff"], object),
            '{"$type":"tensor","dtype":"string","shape":[2],"values":["a",{"b64":"/w=="}]}',
        ),
        (
            np.zeros((10**12, 0), np.int8),
            '{"$type":"tensor","dtype":"int8","shape":[1000000000000,0],"values":[]}',
        ),
    ],
)
def test_texts(value, text):
    """The text of each kind is what the page of the format says."""
    assert dumps(value).decode() == text
    assert same(loads(text), np.asarray(value) if isinstance(value, np.generic) else value)


def test_inline():
    """`inline` is up to how many elements are readable; 0 is none, strings always are."""
    three = np.arange(3)

    assert b"values" in dumps(three, inline=3)
    assert b"values" in dumps(three, inline=10**30)
    assert b"base64" in dumps(three, inline=2)
    assert b"base64" in dumps(three, inline=-(10**30))
    assert b"base64" in dumps(np.zeros(0), inline=0)
    assert b"values" in dumps(np.array([b"x"], object), inline=0)
    assert b"values" in dumps(np.zeros(32))
    assert b"base64" in dumps(np.zeros(33))


@given(arrays())
def test_an_array_alone(array):
    """An array alone, contiguous or not, has the text that it has in a list."""
    assert dumps([array]) == b"[" + dumps(array) + b"]"


def test_base64_is_little_endian_rows():
    """Any reader of base64 gets the values in little-endian byte order and C order."""
    array = np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3))

    data = base64.b64decode(json.loads(dumps(array, inline=0))["base64"])

    assert np.frombuffer(data, "<i2").tolist() == [0, 1, 2, 3, 4, 5]


def test_values_written_by_hand():
    """Integers stand for floats, and no values for any empty shape."""
    assert same(loads(tensor(dtype="float16", values=[1, 0.1])), np.array([1, 0.1], np.float16))
    assert loads(tensor(shape=[2, 0], values=[[], []])).shape == (2, 0)
    assert loads(tensor(shape=[2, 0], values=[])).shape == (2, 0)


def test_bytes_beyond_their_dtype_are_normalised():
    """A bool other than 0 is true; bits beyond the width of int4 are dropped."""
    flags = loads(tensor(dtype="bool", base64=base64.b64encode(b"\x00\x07").decode()))
    narrow = loads(tensor(dtype="int4", base64=base64.b64encode(b"\xff\x71").decode()))

    assert flags.view(np.uint8).tolist() == [0, 1]
    assert narrow.view(np.uint8).tolist() == [0x0F, 0x01]


def test_recognised():
    """A text that starts with an object or a list is JSON, after white space too."""
    assert loads(dumps({"a": 1})) == ferry.loads(dumps({"a": 1})) == {"a": 1}
    assert ferry.loads(b" \t\r\n [1]") == [1]
    assert recognise(Glimpse("", b"")) is None
    assert recognise(Glimpse("", b'"text"')) is None


def test_frameworks(tf):
    """TensorFlow's tensors are taken and given back."""
    value = {
        "dense": tf.constant([1.5, 2.0]),
        "ragged": tf.ragged.constant([[1], [2, 3]]),
        "sparse": tf.sparse.from_dense([[0, 1]]),
    }

    result = ferry.loads(dumps(value), to="tensorflow")

    assert result["dense"].numpy().tolist() == [1.5, 2.0]
    assert result["ragged"].to_list() == [[1], [2, 3]]
    assert tf.sparse.to_dense(result["sparse"]).numpy().tolist() == [[0, 1]]


# The hooks for `json`.


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda key: key != "$type"),
        st.lists(TENSORS, max_size=2),
        max_size=3,
    )
)
def test_hooks(value):
    """`json` itself writes and reads tensors with our two functions."""
    text = json.dumps(value, default=ferry.json_default, allow_nan=False)

    assert same(json.loads(text, object_hook=ferry.json_object_hook), value)


@given(STRUCTURES)
def test_object_hook_reads_all(value):
    """The hook reads whatever `dumps` wrote, typed values inside typed values too."""
    text = dumps(value).decode()

    assert same(json.loads(text, object_hook=ferry.json_object_hook), value)


def test_default_takes(tf):
    """Scalars of NumPy, bytes and what has `__array__` are taken."""
    text = json.dumps([np.int8(3), b"x", tf.constant([1.5])], default=ferry.json_default)

    result = json.loads(text, object_hook=ferry.json_object_hook)

    assert same(result[0], np.array(3, np.int8))
    assert result[1] == b"x"
    assert same(result[2], np.array([1.5], np.float32))


def test_default_refuses(tf):
    """What is no array is a TypeError, as `json` has it, with what to do instead."""
    for value in ({1, 2}, object(), tf.ragged.constant([[1], []]), tf.sparse.eye(2), np.float32):
        with pytest.raises(TypeError, match=r"tensorferry\.dumps"):
            json.dumps(value, default=ferry.json_default)


def test_default_with_an_array_that_fails():
    """A tensor whose `__array__` fails is refused with the reason."""

    class Stubborn:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("got unsupported scalar type BFloat16")

    with pytest.raises(ferry.UnsupportedError, match="Stubborn: got unsupported scalar type"):
        json.dumps(Stubborn(), default=ferry.json_default)


# What cannot be written.


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("\ud800", "half a character"),
        ({"\udfff": 1}, "half a character"),
        ({1.5: 2}, "expected a string or an integer"),
        ({2**63: 2}, "expected a string or an integer of 64 bits"),
        ({True: 2}, "expected a string or an integer"),
        (np.array(["2020"], "M8[s]"), "datetime64"),
        (namedtuple("Renamed", "a a", rename=True)(1, 2), "could not be read again"),
    ],
)
def test_what_json_cannot_carry(value, message):
    """What could not be read again is refused."""
    with pytest.raises(ferry.UnsupportedError, match=message):
        dumps(value)


def test_an_integer_longer_than_python_writes():
    """An integer with more digits than Python turns into text is refused."""
    with pytest.raises(ferry.UnsupportedError, match="too long"):
        dumps(10**5000)


def test_signature_needs_serving():
    """Options of Serving's bodies are refused for typed JSON."""
    with pytest.raises(TypeError, match="goes with serving"):
        dumps(1, signature_name="x")
    with pytest.raises(TypeError, match="goes with serving"):
        loads("1", dtypes="int32")


# Hostile texts.

HOSTILE = {
    "empty": "",
    "white space": "  ",
    "no json": "hello",
    "two values": "1 2",
    "nan": "[NaN]",
    "infinity": "-Infinity",
    "float overflow": "[1e999]",
    "huge integer": "1" * 5000,
    "duplicate key": '{"a":1,"a":2}',
    "duplicate key by escape": '{"a":1,"\\u0061":2}',
    "half a character": '["\\ud800"]',
    "half a character in a key": '{"\\udc00":1}',
    "byte order mark": "\ufeff{}",
    "unknown type": typed("object"),
    "type is a number": typed(1),
    "type is a list": typed([]),
    "type is an object": typed(typed("tuple", values=[])),
    "no fields": typed("tensor"),
    "one field too many": tensor(values=[1, 2], name="x"),
    "values and base64": tensor(values=[1, 2], base64="AAAAAAAAAAA="),
    "dtype is a number": tensor(dtype=3, values=[1, 2]),
    "unknown dtype": tensor(dtype="int33", values=[1, 2]),
    "opaque dtype": tensor(dtype="resource", values=[1, 2]),
    "shape is a number": tensor(shape=2, values=[1, 2]),
    "negative dimension": tensor(shape=[-2], values=[1, 2]),
    "boolean dimension": tensor(shape=[True], values=[1]),
    "float dimension": tensor(shape=[2.0], values=[1, 2]),
    "null dimension": tensor(shape=[None], values=[1, 2]),
    "overflowing shape": tensor(shape=[2**32, 2**32], base64="AAAA"),
    "overflowing empty shape": tensor(shape=[2**62, 2**62, 0], base64=""),
    "dimension beyond 64 bits": tensor(shape=[2**64, 0], values=[]),
    "too many dimensions": tensor(shape=[1] * 65, base64="AAAAAA=="),
    "far too many dimensions": tensor(shape=[2**62] * 10**5, base64=""),
    "declared terabytes": tensor(shape=[2**40], base64="AAAA"),
    "short base64": tensor(base64="AAAA"),
    "long base64": tensor(base64="AAAAAAAAAAAAAAAA"),
    "stray characters": tensor(base64="AAAAAAAAAAA=\n"),
    "no padding": tensor(base64="AAAAAAAAAAA"),
    "not ascii": tensor(base64="ÄAAAAAAAAAA="),
    "too few values": tensor(values=[1]),
    "too many values": tensor(values=[1, 2, 3]),
    "values too deep": tensor(values=[[1], [2]]),
    "values not deep enough": tensor(shape=[2, 1], values=[1, 2]),
    "values of two depths": tensor(shape=[2, 1], values=[[1], 2]),
    "values for a shape that is not empty": tensor(values=[]),
    "float for an integer": tensor(values=[1.0, 2.0]),
    "boolean for an integer": tensor(values=[True, False]),
    "string for an integer": tensor(values=["1", "2"]),
    "null for an integer": tensor(values=[None, None]),
    "object for an integer": tensor(values=[{}, {}]),
    "integer too large": tensor(values=[1, 2**31]),
    "integer too small": tensor(dtype="uint8", values=[0, -1]),
    "integer too large for int4": tensor(dtype="int4", values=[8, 0]),
    "number for a boolean": tensor(dtype="bool", values=[0, 1]),
    "float too large": tensor(dtype="float16", values=[1e5, 0]),
    "float too large for a kind without infinity": tensor(dtype="float8_e4m3fn", values=[1e5, 0]),
    "float overflow in a tensor": (
        '{"$type":"tensor","dtype":"float64","shape":[],"values":1e999}'
    ),
    "integer beyond floats": tensor(dtype="float32", values=[10**400, 0]),
    "number for a string": tensor(dtype="string", values=[1, 2]),
    "strings as base64": tensor(dtype="string", base64="AAAA"),
    "bad binary string": tensor(dtype="string", values=["a", {"b64": "!"}]),
    "odd binary string": tensor(dtype="string", values=["a", {"b64": "AA==", "x": 1}]),
    "binary string is a number": tensor(dtype="string", values=["a", {"b64": 1}]),
    "half a character in a tensor": tensor(dtype="string", values=["a", "\ud800"]),
    "complex values": tensor(dtype="complex64", values=[1, 2]),
    "quantized values": tensor(dtype="qint8", values=[1, 2]),
    "tuple of a number": typed("tuple", values=1),
    "tuple without values": typed("tuple"),
    "bytes of a list": typed("bytes", base64=[]),
    "float of a number": typed("float", value=1),
    "float of another word": typed("float", value="1.0"),
    "float of four bytes": typed("float", base64="AAAAAA=="),
    "dict of a dict": typed("dict", items={}),
    "dict of a triple": typed("dict", items=[["a", 1, 2]]),
    "dict with a fraction as key": typed("dict", items=[[1.5, 2]]),
    "dict with a duplicate key": typed("dict", items=[["a", 1], ["a", 2]]),
    "namedtuple without a name": typed("namedtuple", name=1, fields=[], values=[]),
    "namedtuple of a keyword": namedtuple_of("if"),
    "namedtuple of code": namedtuple_of("a=1"),
    "namedtuple of a private name": namedtuple_of("_a"),
    "namedtuple of a name twice": namedtuple_of("a", "a", values=[1, 2]),
    "namedtuple of numbers": namedtuple_of(1),
    "namedtuple of too few": namedtuple_of("a", values=[]),
    "namedtuple of too many": namedtuple_of(*(f"a{i}" for i in range(1001)), values=[0] * 1001),
    "sparse of numbers": typed("sparse", indices=1, values=2, dense_shape=3),
    "sparse with indices of strings": sparse(tensor(dtype="string", shape=[1, 1], values=[["0"]])),
    "sparse with indices of floats": sparse(tensor(dtype="float32", shape=[1, 1], values=[[0]])),
    "sparse with an index outside": sparse(tensor(dtype="int64", shape=[1, 1], values=[[3]])),
    "ragged of a number": typed("ragged", flat_values=1, nested_row_splits=[]),
    "ragged without splits": ragged(),
    "ragged with splits of floats": ragged(tensor(dtype="float32", values=[0, 2])),
    "ragged with splits of strings": ragged(tensor(dtype="string", values=["0", "2"])),
    "ragged with splits too long": ragged(tensor(dtype="int64", values=[0, 3])),
}
HOSTILE_TEXTS = {
    name: case if isinstance(case, str) else json.dumps(case) for name, case in HOSTILE.items()
}


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
def test_hostile_texts(text):
    """What the format does not allow is a FormatError, inside a structure as well."""
    for data in (text, f'{{"a":[0,{text}]}}'):
        with pytest.raises(ferry.FormatError):
            loads(data)


@pytest.mark.parametrize("case", [case for case in HOSTILE.values() if isinstance(case, dict)])
def test_hostile_objects_and_the_hook(case):
    """The hook refuses the objects that the format refuses."""
    with pytest.raises(ferry.FormatError):
        json.loads(json.dumps(case), object_hook=ferry.json_object_hook)


@pytest.mark.parametrize("text", [b"\xff", b'["\xc3"]', '["a"]'.encode("utf-16")])
def test_not_utf8(text):
    """Bytes that are no UTF-8 are refused where they stand."""
    with pytest.raises(ferry.FormatError, match="no UTF-8") as caught:
        loads(text)
    assert caught.value.offset is not None


def test_offsets():
    """An error of the text has the byte, also behind characters of several bytes."""
    with pytest.raises(ferry.FormatError) as caught:
        loads('["é", ?]')
    assert caught.value.offset == len('["é", '.encode())


def test_places():
    """An error in a structure says where in it."""
    with pytest.raises(ferry.FormatError) as caught:
        loads({"a": [0, typed("tuple", values=[{"b": tensor(values=[1])}])]})
    assert caught.value.tensor == "a/1/0/b"
    assert "1 elements at dimension 0, expected 2" in str(caught.value)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("[", "]"),
        ('{"a":', "}"),
        ('{"$type":"tuple","values":[', "]}"),
        ('{"$type":"dict","items":[["a",', "]]}"),
        ('{"$type":"sparse","indices":', ',"values":1,"dense_shape":1}'),
        ('{"$type":"tensor","dtype":"int8","shape":[1],"values":[', "]}"),
    ],
)
@pytest.mark.parametrize("depth", [101, 10_000, 200_000])
def test_deep_nesting(opening, closing, depth):
    """Nesting beyond the limit is an error of ours, at any depth."""
    for text in (opening * depth + "1" + closing * depth, opening * depth):
        with pytest.raises(ferry.FormatError):
            loads(text)
    with pytest.raises(ferry.LimitError):
        loads("[" * depth + "]" * depth)


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"$type": v}])
def test_nesting_to_the_limit(wrap):
    """Structures as deep as the limit allows are written and read, one deeper are not."""
    value = np.zeros(2)
    for _ in range(ferry.limits.depth):
        value = wrap(value)

    assert same(loads(dumps(value)), value)
    with pytest.raises(ferry.LimitError):
        dumps(wrap(value))


# From Python 3.12 on, frames of C code are not counted: the text fits into 187 frames then.
@pytest.mark.parametrize("left", [50, 100, 150])
def test_little_stack(left):
    """A caller deep in its own recursion gets an error of ours."""
    frames = len(inspect.stack(context=0))

    def descend(depth):
        return descend(depth - 1) if depth else loads("[" * 90 + "]" * 90)

    with pytest.raises(ferry.LimitError):
        descend(sys.getrecursionlimit() - frames - left)


SAMPLE = {
    "a": np.array([[0.1, 2]], np.float32),
    "b": (np.zeros(40, np.int8), b"\x01", math.nan, Point(1, "é")),
    "c": ferry.RaggedTensor.from_rows([[1], [2, 3]]),
    "d": ferry.SparseTensor.from_dense([[0, 5]]),
    "e": {"$type": [None, True, -1.5e10]},
    "f": np.array([b"\xff", b"x"], object),
}


def test_truncation():
    """Cut at any byte, the text is refused."""
    data = dumps(SAMPLE)
    for end in range(len(data)):
        with pytest.raises(ferry.FormatError):
            loads(data[:end])


def test_bit_flips():
    """With any bit flipped, the text gives a value or an error of ours."""
    data = bytearray(dumps(SAMPLE))
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ferry.FerryError):
            loads(bytes(data))
        data[bit // 8] ^= 1 << bit % 8


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=4)
        | st.sampled_from(["tensor", "tuple", "int8", "string", "AA=="]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "$type",
                        "dtype",
                        "shape",
                        "values",
                        "base64",
                        "items",
                        "fields",
                        "name",
                        "indices",
                        "dense_shape",
                        "flat_values",
                        "nested_row_splits",
                        "value",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json(node):
    """Any JSON gives a value or an error of ours."""
    text = json.dumps(node)
    try:
        value = loads(text)
    except ferry.FerryError:
        return
    assert same(loads(dumps(value)), value)
