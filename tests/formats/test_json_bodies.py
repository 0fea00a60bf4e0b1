"""Bodies of TensorFlow Serving's REST API, as its documentation has them, and hostile ones."""

from __future__ import annotations

import contextlib
import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from strategies import NUMERIC, numeric_arrays, ragged_tensors, same, string_arrays

import tensorferry as ferry
from tensorferry.codecs import json_text
from tensorferry.formats.json import bodies

FORMS = ("instances", "inputs", "predictions", "outputs")
NUMBERS = tuple(row for row in NUMERIC if not row.name.startswith(("q", "complex")))


def dumps(value, form, **options):
    return ferry.dumps(value, format="json", serving=form, **options)


def loads(body, dtypes=None):
    """Reads bytes, a text, or what is to be one."""
    if isinstance(body, dict):
        body = json.dumps(body)
    data = body.encode() if isinstance(body, str) else body
    return ferry.loads(data, format="json", serving=True, dtypes=dtypes)


def strings(*values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def agree(left, right):
    """Whether two tensors are the same, any NaN being as good as another."""
    return same(*(plain_nans(array) for array in (left, right)))


@np.errstate(invalid="ignore")  # NaNs that signal
def plain_nans(array):
    array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype != object and "float" in str(array.dtype):
        array[np.isnan(array)] = np.nan
    return array


@given(numeric_arrays(NUMBERS) | string_arrays(), st.sampled_from(FORMS))
def test_roundtrip(array, form):
    """With its dtype given, a tensor comes back in every form, to the bit (but which NaN)."""
    assume(array.size and (array.ndim or form in ("inputs", "outputs")))

    assert agree(loads(dumps(array, form), array.dtype), array)


@given(
    st.lists(numeric_arrays(NUMBERS) | string_arrays(), min_size=1, max_size=3),
    st.integers(1, 3),
    st.sampled_from(FORMS),
)
def test_named_roundtrip(tensors, rows, form):
    """Named tensors come back by name, with their dtypes given by name."""
    assume(all(tensor.size for tensor in tensors))
    value = {f"name{i}": np.stack([tensor] * rows) for i, tensor in enumerate(tensors)}

    result = loads(dumps(value, form), {name: tensor.dtype for name, tensor in value.items()})

    assert list(result) == list(value)
    assert all(agree(result[name], value[name]) for name in value)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (np.array([1.0, 2.0, 5.0], np.float32), "instances", '{"instances":[1.0,2.0,5.0]}'),
        (np.array([3.5, 0.1], np.float32), "predictions", '{"predictions":[3.5,0.1]}'),
        (np.array([[[1, 2]], [[3, 4]]]), "instances", '{"instances":[[[1,2]],[[3,4]]]}'),
        (strings(b"foo", "bär".encode()), "instances", '{"instances":["foo","bär"]}'),
        (strings(b"\xff", b"a"), "inputs", '{"inputs":[{"b64":"/w=="},"a"]}'),
        (np.array([True, False]), "outputs", '{"outputs":[true,false]}'),
        (np.array(7, np.uint64), "inputs", '{"inputs":7}'),
        ([1.5, 2.5], "inputs", '{"inputs":[1.5,2.5]}'),
        (
            np.array([np.nan, np.inf, -np.inf], np.float32),
            "inputs",
            '{"inputs":[NaN,Infinity,-Infinity]}',
        ),
        (np.array([1 / 3], ml_dtypes.bfloat16), "inputs", '{"inputs":[0.334]}'),
        (
            {"tag": strings(b"foo", b"bar"), "signal": np.array([[1, 2], [3, 4]])},
            "instances",
            '{"instances":[{"tag":"foo","signal":[1,2]},{"tag":"bar","signal":[3,4]}]}',
        ),
        (
            {"tag": strings(b"foo", b"bar"), "signal": np.array([1, 2, 3])},
            "inputs",
            '{"inputs":{"tag":["foo","bar"],"signal":[1,2,3]}}',
        ),
        (
            {"image_bytes": strings(b"abc")},
            "instances",
            '{"instances":[{"image_bytes":{"b64":"YWJj"}}]}',
        ),
        (
            ferry.RaggedTensor.from_rows([[1], [], [2, 3]]),
            "instances",
            '{"instances":[[1],[],[2,3]]}',
        ),
    ],
)
def test_bodies(value, form, text):
    """Each form has the text that the server's documentation describes."""
    assert dumps(value, form).decode() == text


def test_signature_name():
    """A request names the signature first; an answer has none."""
    body = dumps(np.array([1]), "instances", signature_name="serving_default")

    assert body == b'{"signature_name":"serving_default","instances":[1]}'
    assert loads(body).tolist() == [1]
    with pytest.raises(ferry.UnsupportedError, match="names no signature"):
        dumps(np.array([1]), "outputs", signature_name="x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"predictions": [3.5, 4, 5.5]}', np.array([3.5, 4, 5.5], np.float32)),
        ('{"predictions": [1, 2]}', np.array([1, 2], np.int64)),
        ('{"outputs": [[true], [false]]}', np.array([[True], [False]])),
        ('{"outputs": ["a", {"b64": "/w=="}]}', strings(b"a", b"\xff")),
        ('{"outputs": {"b64": "/w=="}}', strings(b"\xff").reshape(())),
        ('{"outputs": 2.5}', np.array(2.5, np.float32)),
        ('{"outputs": [NaN, -Infinity]}', np.array([np.nan, -np.inf], np.float32)),
        ('{"predictions": []}', np.zeros(0, np.float32)),
        ('{"predictions": [[], []]}', np.zeros((2, 0), np.float32)),
        ('{"instances": [{"b64": "/w=="}]}', strings(b"\xff")),
        (
            '{"predictions": [{"a": 1, "b": [0.5]}, {"b": [1.5], "a": 2}]}',
            {"a": np.array([1, 2]), "b": np.array([[0.5], [1.5]], np.float32)},
        ),
        ('{"outputs": {"a": 1}}', {"a": np.array(1)}),
        (
            '{"predictions": [1], "model_spec": {"version": [7]}}',
            np.array([1]),
        ),
    ],
)
def test_reading(text, expected):
    """Bodies of all forms are recognised, and numbers become what they look like."""
    assert same(loads(text), expected)


@given(ragged_tensors())
def test_ragged_rows(ragged):
    """Rows of different lengths are read as a ragged tensor of the same rows."""
    assume(not str(ragged.dtype).startswith(("[", "complex")))
    expected = json.dumps(json.loads(dumps(ragged, "instances"))["instances"])

    result = loads(dumps(ragged, "instances"), ragged.dtype)

    assert json.dumps(json.loads(dumps(result, "instances"))["instances"]) == expected


@pytest.mark.parametrize(
    ("rows", "splits", "inner"),
    [
        ([[1], [], [2, 3]], [[0, 1, 1, 3]], ()),
        ([[[1, 2]], [], [[3, 4], [5, 6]]], [[0, 1, 1, 3]], (2,)),
        ([[[1], [2, 3]], [[4]]], [[0, 2, 3], [0, 1, 3, 4]], ()),
        ([[[1], []], [[], []]], [[0, 2, 4], [0, 1, 1, 1, 1]], ()),
    ],
)
def test_ragged_levels(rows, splits, inner):
    """The dimensions up to the last that varies are ragged, those behind it uniform."""
    result = loads({"predictions": rows})

    assert [level.tolist() for level in result.nested_row_splits] == splits
    assert result.flat_values.shape[1:] == inner
    assert result.to_list() == rows


def test_dtypes():
    """Dtypes are given for all tensors, or by name; a lone tensor's name is left out by servers."""
    body = {"outputs": {"a": [1], "b": [2]}}

    assert {t.dtype for t in loads(body, "uint8").values()} == {np.dtype("uint8")}
    named = loads(body, {"b": np.float16})
    assert (named["a"].dtype, named["b"].dtype) == (np.int64, np.float16)
    assert loads({"outputs": [1]}, {"scores": "float64"}).dtype == np.float64
    with pytest.raises(ferry.FormatError, match="no tensor 'c', only 'a', 'b'"):
        loads(body, {"c": "int8"})
    with pytest.raises(ferry.FormatError, match="one tensor without a name, expected 'a', 'b'"):
        loads({"outputs": [1]}, {"a": "int8", "b": "int8"})
    with pytest.raises(ferry.UnsupportedError, match="complex64"):
        loads({"outputs": [1]}, "complex64")


def test_server_errors():
    """What the server reports is the message of the error."""
    with pytest.raises(ferry.FormatError, match="Servable not found for request: Latest"):
        loads({"error": "Servable not found for request: Latest(half)"})


@pytest.mark.parametrize(
    ("value", "form", "message"),
    [
        (np.array([1j]), "inputs", "no numbers for complex128"),
        (np.zeros(1, [("qint8", "i1")]), "inputs", "no numbers for qint8"),
        (ferry.SparseTensor.from_dense(np.eye(2)), "inputs", "no place for a SparseTensor"),
        ({"a": {"b": 1}}, "inputs", "dict is no dense tensor"),
        (None, "inputs", "NoneType is no dense tensor"),
        (np.array(1), "instances", "a scalar has no rows"),
        ({"a": np.zeros(2), "b": np.zeros(3)}, "predictions", "{'a': 2, 'b': 3} rows"),
        ({"a": np.zeros(0)}, "instances", "no rows"),
        ({}, "inputs", "expected at least one"),
        ({"b64": strings(b"x")}, "instances", "marks a binary string"),
        (np.zeros(1), "rows", "no form 'rows'"),
    ],
)
def test_what_serving_cannot_carry(value, form, message):
    """What has no place in a body is refused."""
    with pytest.raises(ferry.UnsupportedError) as caught:
        dumps(value, form)
    assert message in str(caught.value)


def test_refusals_name_the_tensor():
    """An error in one of several tensors says which."""
    with pytest.raises(ferry.UnsupportedError) as caught:
        dumps({"good": np.zeros(1), "bad": np.array([1j])}, "inputs")
    assert caught.value.tensor == "bad"
    with pytest.raises(ferry.FormatError) as caught:
        loads({"outputs": {"good": [1], "bad": [None]}})
    assert caught.value.tensor == "bad"


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"predictions": [1], "outputs": [1]}',
        '{"predictions": 1}',
        '{"predictions": {"a": [1]}}',
        '{"predictions": [{"a": 1}, {"b": 1}]}',
        '{"predictions": [{"a": 1}, 2]}',
        '{"predictions": [2, {"a": 1}]}',
        '{"predictions": [{"a": 1}, {"a": 1, "b": 2}]}',
        '{"outputs": [1, [2]]}',
        '{"outputs": [1, "a"]}',
        '{"outputs": [1, true]}',
        '{"outputs": [null]}',
        '{"outputs": null}',
        '{"outputs": [{"a": 1}]}',
        '{"outputs": [{"b64": "!"}]}',
        '{"outputs": [{"b64": 1}]}',
        '{"outputs": [9223372036854775808]}',
        '{"outputs": [1e39]}',
        '{"outputs": ["\\ud800"]}',
        '{"outputs": [1], "outputs": [2]}',
        '{"outputs": [1',
        '{"outputs": ' + "[" * 65 + "]" * 65 + "}",
        '{"outputs": ' + "[" * 10_000 + "]" * 10_000 + "}",
        '{"outputs": ' + "1" * 5000 + "}",
    ],
)
def test_hostile_bodies(text):
    """What no server writes is a FormatError."""
    with pytest.raises(ferry.FormatError):
        loads(text)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0], "int32"),
        ([True], "int32"),
        ([1], "bool"),
        (["1"], "float32"),
        ([True], "float32"),
        ([1], "string"),
        ([256], "uint8"),
        ([-1], "uint64"),
        ([1e5], "float16"),
        ([10**400], "float64"),
    ],
)
def test_values_of_another_dtype(values, dtype):
    """A value that the dtype asked for does not have is refused, never rounded or wrapped."""
    with pytest.raises(ferry.FormatError, match=dtype):
        loads({"outputs": values}, dtype)


def test_infinity_in_a_dtype_without():
    """Infinity is refused for a dtype that has none."""
    with pytest.raises(ferry.FormatError, match="float8_e4m3fn"):
        loads('{"outputs": [Infinity]}', "float8_e4m3fn")


def test_truncation_and_bit_flips():
    """A damaged body gives a value or an error of ours; a truncated one always the error."""
    value = {"a": np.array([0.5, 2.0], np.float32), "b_bytes": strings(b"\xff", "é".encode())}
    for form in FORMS:
        data = bytearray(dumps(value, form))
        for end in range(len(data)):
            with pytest.raises(ferry.FormatError):
                loads(bytes(data[:end]))
        for bit in range(len(data) * 8):
            data[bit // 8] ^= 1 << bit % 8
            with contextlib.suppress(ferry.FerryError):
                loads(bytes(data))
            data[bit // 8] ^= 1 << bit % 8


def test_tensorflow_tensors(tf):
    """TensorFlow's tensors are taken and given back."""
    body = dumps({"x": tf.constant([[0.1, 2.0]]), "n": tf.constant([3])}, "instances")

    assert body == b'{"instances":[{"x":[0.1,2.0],"n":3}]}'
    result = ferry.loads(body, format="json", serving=True, to="tensorflow")
    assert result["x"].dtype == tf.float32


@np.errstate(all="ignore")
def test_fewest_digits():
    """Floats have the digits that NumPy gives each of them: the fewest that give it back."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 20_000, np.uint32)
    ordinary = np.random.default_rng(1).standard_normal(20_000).astype(np.float32)
    rounded = np.round(ordinary, 3)
    powers = np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32)
    edges = np.float32([0.0, -0.0, 1e-12, 9.999999e14, 1e15, 16777216, 3.4028235e38, 0.1, 1 / 3])
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for array in (bits.view(np.float32), ordinary, rounded, powers, -powers, edges, halves):
        finite = array[np.isfinite(array)]
        written = json.loads(dumps(finite, "inputs"))["inputs"]
        assert [repr(number) for number in written] == [repr(float(str(one))) for one in finite]


@pytest.mark.parametrize("depth", [1, 64, 65, 100, 300])
def test_lists_in_lists(depth):
    """Lists are as deep as an array has dimensions; deeper ones are refused."""
    text = b'{"inputs": ' + b"[" * depth + b"1" + b"]" * depth + b"}"
    if depth <= 64:
        assert bodies.from_body(bodies.read_body(text)).shape == (1,) * depth
        return
    with pytest.raises(ferry.FormatError, match="deeper than 64"):
        bodies.from_body(bodies.read_body(text))


WRITTEN = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(
        ["-0", "0.0", "-0.0", "1e5", "1E+5", "1e-400", "1e400", "12345678901234567890.5"]
    ),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["01", "1.", ".5", "+1", "1e", "-", "NaN", "-NaN", "-Infinity", "true", '"a"']),
)


def shown(number: object) -> str:
    """A number as JSON has it; a text as it is."""
    return number if isinstance(number, str) else json.dumps(number)


@given(st.lists(st.lists(WRITTEN.map(shown), max_size=3), max_size=3), st.booleans())
def test_numbers_are_read_as_json_reads_them(rows, named):
    """A tensor of numbers, or the error, is what `json.loads` and NumPy make of the text."""
    lists = "[" + " , ".join("[" + ",".join(row) + "]" for row in rows) + "]"
    text = f'{{"inputs": {{"x": {lists}}}}}' if named else f'\n{{"instances":{lists}}}'
    try:
        expected = bodies.from_body(json_text.parse(text.encode(), json_text.SERVING))
    except ferry.FerryError as error:
        with pytest.raises(type(error)) as caught:
            bodies.from_body(bodies.read_body(text.encode()))
        assert caught.value.message == error.message
        return
    found = bodies.from_body(bodies.read_body(text.encode()))
    expected, found = (one["x"] if named else one for one in (expected, found))
    assert type(found) is type(expected)
    if isinstance(found, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
        assert found.flags.writeable


PLAIN = tuple(row for row in NUMBERS if "float" not in row.name and row.bits >= 8)
WIDE = tuple(row for row in NUMBERS if row.name in ("float32", "float64"))


@given(numeric_arrays((*PLAIN, *WIDE)))
def test_text_is_that_of_json(array):
    """The text of a tensor is what `json.dumps` writes of its values, each in its fewest digits."""
    array = array.astype(array.dtype.newbyteorder("="))
    value = array.tolist()
    if array.dtype == np.float32:
        leaves = [float(str(one)) for one in array.ravel()]
        value = bodies.nest(leaves, array.shape)
    expected = json.dumps({"inputs": value}, separators=(",", ":")).encode()
    assert bodies.to_text(array, "inputs") == expected
    assert bodies.to_text(array[..., None][..., 0], "inputs") == expected
    if array.ndim and len(array):
        rows = [{"x": row, "y": row} for row in value]
        expected = json.dumps({"predictions": rows}, separators=(",", ":")).encode()
        assert bodies.to_text({"x": array, "y": array}, "predictions") == expected
