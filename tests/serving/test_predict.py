"""Predict's messages beside Serving's own classes, both ways, and its REST bodies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st
from serving_specs import fill, has_one_order, names_same, specs
from strategies import NUMERIC, arrays, numeric_arrays, ragged_tensors, same, sparse_tensors

import tensorferry as ferry
from tensorferry import dtypes, serving

NAMES = st.text(min_size=1, max_size=8)
TENSORS = st.dictionaries(NAMES, arrays(), max_size=3)
# What the REST API has numbers for; NaNs lose their payload there.
PLAIN = tuple(row for row in NUMERIC if row.name in ("bool", "int8", "int32", "int64", "uint8"))


def agrees(proto, array):
    """Whether an official TensorProto holds an array, field by field."""
    array = np.asarray(array, array.dtype.newbyteorder("="))
    if proto.dtype != dtypes.from_numpy(array.dtype).enum:
        return False
    if tuple(dim.size for dim in proto.tensor_shape.dim) != array.shape:
        return False
    if array.dtype == object:
        return list(proto.string_val) == array.ravel().tolist() and not proto.tensor_content
    return proto.tensor_content == array.tobytes()


@given(specs(), TENSORS, st.lists(st.text(max_size=8), max_size=3))
def test_request_is_read_by_official(apis, spec, inputs, output_filter):
    """Serving's own classes find every field, and write the very same bytes."""
    request = serving.PredictRequest(inputs=inputs, output_filter=output_filter, **spec)
    data = request.to_bytes()
    proto = apis.predict.PredictRequest.FromString(data)

    assert proto.model_spec.name == spec["model"]
    assert proto.model_spec.signature_name == spec["signature_name"]
    assert proto.model_spec.HasField("version") == ("version" in spec)
    assert proto.model_spec.version.value == spec.get("version", 0)
    assert proto.model_spec.version_label == spec.get("version_label", "")
    assert list(proto.output_filter) == output_filter
    assert sorted(proto.inputs) == sorted(inputs)
    assert all(agrees(proto.inputs[name], inputs[name]) for name in inputs)
    if has_one_order(inputs):
        assert proto.SerializeToString(deterministic=True) == data
    assert b"".join(request.to_buffers()) == data


@given(specs(), TENSORS, st.lists(st.text(max_size=8), max_size=3))
def test_official_request_is_read(apis, spec, inputs, output_filter):
    """What Serving's own classes write is read, in whatever order a map has."""
    proto = apis.predict.PredictRequest(output_filter=output_filter)
    fill(proto.model_spec, spec)
    for name, array in inputs.items():
        proto.inputs[name].ParseFromString(ferry.dumps(array))
    request = serving.PredictRequest.from_bytes(proto.SerializeToString())

    assert names_same(request, spec)
    assert request.output_filter == tuple(output_filter)
    assert request.inputs.keys() == inputs.keys()
    assert all(same(request.inputs[name], inputs[name]) for name in inputs)


@given(specs(), TENSORS)
def test_response_both_ways(apis, spec, outputs):
    """A response is the same for both, to the byte."""
    response = serving.PredictResponse(outputs, **spec)
    data = response.to_bytes()
    proto = apis.predict.PredictResponse.FromString(data)
    back = serving.PredictResponse.from_bytes(proto.SerializeToString())

    assert all(agrees(proto.outputs[name], outputs[name]) for name in outputs)
    if has_one_order(outputs):
        assert proto.SerializeToString(deterministic=True) == data
    assert names_same(back, spec)
    assert back.outputs.keys() == outputs.keys()
    assert all(same(back.outputs[name], outputs[name]) for name in outputs)


def test_every_dtype_of_make_tensor_proto(tf, apis):
    """Tensors as tf.make_tensor_proto puts them, in typed fields or content, are read."""
    read = set()
    for row in (*NUMERIC, dtypes.STRING):
        values = [b"a", b"bc"] if row is dtypes.STRING else [0, 1]
        for value in (values, values[1], [values[1]] * 3):
            try:
                proto = tf.make_tensor_proto(value, dtype=row.name)
                expected = tf.make_ndarray(proto)
            except (TypeError, ValueError, AttributeError):
                continue  # it has no such tensors
            message = apis.predict.PredictResponse()
            message.outputs["y"].CopyFrom(proto)
            output = serving.PredictResponse.from_bytes(message.SerializeToString()).output
            assert output.dtype == row.numpy
            assert output.shape == expected.shape
            assert output.tolist() == expected.astype(output.dtype).tolist()
            read.add(row.name)

    assert len(read) >= 18, read


def test_reading_copies_nothing():
    """Arrays lie in the message, and the buffers to send are the caller's memory."""
    array = np.arange(1000.0)
    buffers = serving.PredictRequest("m", {"x": array}).to_buffers()
    data = b"".join(buffers)
    read = serving.PredictRequest.from_bytes(data).inputs["x"]

    assert any(np.shares_memory(np.frombuffer(buffer, np.uint8), array) for buffer in buffers)
    assert np.shares_memory(read, np.frombuffer(data, np.uint8))
    assert not read.flags.writeable


def test_any_value_goes_in(tf):
    """Lists, numbers, text, TensorFlow's tensors and variables; TensorFlow's come out."""
    inputs = {
        "list": [[1, 2], [3, 4]],
        "number": 0.5,
        "text": ["a", b"b"],
        "tensor": tf.constant([[1.5]], tf.bfloat16),
        "variable": tf.Variable([1, 2], dtype=tf.int64),
        "tensors": [tf.constant(1.0, tf.float64), tf.constant(2.0, tf.float64)],
    }
    data = serving.PredictRequest("m", inputs).to_bytes()
    read = serving.PredictRequest.from_bytes(data).inputs
    given_back = serving.PredictRequest.from_bytes(data, to="tensorflow")

    assert {name: str(array.dtype) for name, array in read.items()} == {
        "list": "int32",
        "number": "float32",
        "text": "object",
        "tensor": "bfloat16",
        "variable": "int64",
        "tensors": "float64",
    }
    assert read["text"].tolist() == [b"a", b"b"]
    assert given_back.inputs["tensor"].dtype == tf.bfloat16
    assert given_back.to_bytes() == data


@given(sparse_tensors() | ragged_tensors())
def test_only_dense_tensors(tensor):
    """Sparse and ragged tensors are refused with their name and a way out."""
    for write in ("to_bytes", "to_json"):
        with pytest.raises(ferry.UnsupportedError, match="only dense") as caught:
            getattr(serving.PredictRequest("m", {"x": tensor}), write)()
        assert caught.value.tensor == "x"
        assert caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"inputs": [1.0]}, "expected a dict"),
        ({"inputs": {"": [1.0]}}, "expected the name"),
        ({"inputs": {3: [1.0]}}, "expected the name"),
        ({"inputs": {"x": object()}}, "no tensor"),
        ({"inputs": {"x": None}}, "no dense tensor"),
        ({"inputs": {"x": {"y": 1}}}, "no dense tensor"),
        ({"inputs": {"x": [[1], [1, 2]]}}, "different lengths"),
        ({"inputs": {}, "output_filter": "y"}, "expected a list"),
        ({"inputs": {}, "output_filter": [1]}, "expected a list"),
        ({"inputs": {}, "signature_name": "\ud800"}, "UTF-8"),
    ],
)
def test_what_no_message_holds(arguments, match):
    """What a message cannot carry is refused on writing."""
    with pytest.raises(ferry.UnsupportedError, match=match):
        serving.PredictRequest("m", **arguments).to_bytes()


def test_version_or_label():
    """A version and a label exclude each other."""
    with pytest.raises(ferry.UnsupportedError, match="one of them or neither"):
        serving.PredictRequest("m", {}, version=1, version_label="stable")
    with pytest.raises(ferry.UnsupportedError, match="64 bits"):
        serving.PredictRequest("m", {}, version=2**63)


def test_too_large_a_message():
    """Two tensors that fit by themselves, but not into one message."""
    half = np.broadcast_to(np.uint8(0), (1 << 30,))
    with pytest.raises(ferry.UnsupportedError, match="less than 2 GiB"):
        serving.PredictRequest("m", {"a": half, "b": half}).to_buffers()


def test_outputs_are_saved(tmp_path):
    """The outputs of a response are a value like any other."""
    outputs = {"scores": np.eye(2, dtype=np.float32), "labels": np.array([b"a", b"b"], object)}
    response = serving.PredictResponse.from_bytes(serving.PredictResponse(outputs).to_bytes())
    for name in ("x.safetensors", "x.npz", "x.json"):
        ferry.save(response.outputs, tmp_path / name)
        saved = ferry.load(tmp_path / name)
        assert all(same(saved[key], outputs[key]) for key in outputs)


def test_the_only_output():
    """`output` is there for responses with one, whatever its name."""
    assert serving.PredictResponse({"y": 1}).output == 1
    for outputs in ({}, {"a": 1, "b": 2}):
        with pytest.raises(ferry.UnsupportedError, match="expected one"):
            _ = serving.PredictResponse(outputs).output


# The bodies of the REST API, as its documentation has them.


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (
            serving.PredictRequest("m", {"": ["foo", "bar", "baz"]}, rows=True),
            {"instances": ["foo", "bar", "baz"]},
        ),
        (
            serving.PredictRequest("m", {"": [[[1, 2]], [[3, 4]]]}, rows=True),
            {"instances": [[[1, 2]], [[3, 4]]]},
        ),
        (
            serving.PredictRequest(
                "m",
                {
                    "tag": ["foo", "bar"],
                    "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
                    "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]],
                },
                rows=True,
            ),
            {
                "instances": [
                    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
                    {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
                ]
            },
        ),
        (
            serving.PredictRequest(
                "m",
                {"tag": ["foo", "bar"], "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]]},
                signature_name="sig",
            ),
            {
                "signature_name": "sig",
                "inputs": {"tag": ["foo", "bar"], "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]]},
            },
        ),
        (
            serving.PredictRequest("m", {"image_bytes": [b"image bytes"]}, rows=True),
            {"instances": [{"image_bytes": {"b64": "aW1hZ2UgYnl0ZXM="}}]},
        ),
    ],
)
def test_documented_requests(request_, body):
    """Requests are written as documented, and come back with names, form and signature."""
    written = request_.to_json()
    back = serving.PredictRequest.from_json(written, path="/v1/models/m:predict")

    assert json.loads(written) == body
    assert list(back.inputs) == list(request_.inputs)
    assert (back.rows, back.signature_name) == (request_.rows, request_.signature_name)
    assert back.to_json() == written


def test_documented_responses():
    """Rows and columns, one output without its name, several with theirs, binary strings."""
    read = serving.PredictResponse.from_json

    assert read('{\n    "predictions": [3.5, 4.0, 5.5]\n}').output.tolist() == [3.5, 4.0, 5.5]
    assert read('{"predictions": [3.5]}', dtypes={"y": "float64"}).outputs["y"].dtype == np.float64
    both = read(b'{"outputs": {"a": [1, 2], "b_bytes": [{"b64": "/w=="}]}}')
    assert both.outputs["a"].tolist() == [1, 2]
    assert both.outputs["b_bytes"].tolist() == [b"\xff"]
    assert not both.rows
    assert read(both.to_json()).outputs["b_bytes"].tolist() == [b"\xff"]
    one = {"y": np.float32([0.1, 2])}
    assert serving.PredictResponse(one).to_json() == b'{"outputs":[0.1,2.0]}'
    assert serving.PredictResponse(one, rows=True).to_json() == b'{"predictions":[0.1,2.0]}'
    binary = serving.PredictResponse({"image_bytes": [b"ab"]}, rows=True)
    assert binary.to_json() == b'{"predictions":[{"b64":"YWI="}]}'
    special = serving.PredictResponse({"y": np.float32([np.nan, np.inf, -np.inf])})
    assert special.to_json() == b'{"outputs":[NaN,Infinity,-Infinity]}'
    assert str(read(special.to_json()).output.tolist()) == "[nan, inf, -inf]"


@given(
    st.dictionaries(NAMES.filter(lambda name: name != "b64"), numeric_arrays(PLAIN), min_size=1),
    st.booleans(),
)
def test_json_roundtrip(inputs, rows):
    """Numbers come back from both forms, with their dtypes given."""
    stacked = {name: np.stack([array, array]) for name, array in inputs.items() if array.size}
    if not stacked:
        return
    request = serving.PredictRequest("m", stacked, rows=rows)
    kinds = {name: array.dtype for name, array in stacked.items()}
    back = serving.PredictRequest.from_json(request.to_json(), dtypes=kinds)

    assert back.rows == rows
    assert all(same(back.inputs[name], stacked[name]) for name in stacked)


def test_server_error():
    """What the server reports as an error is raised, with its words."""
    body = b'{ "error": "Servable not found for request: Latest(half)" }'
    for response in (
        serving.PredictResponse,
        serving.ClassifyResponse,
        serving.RegressResponse,
        serving.GetModelStatusResponse,
    ):
        with pytest.raises(ferry.FerryError, match="Servable not found"):
            response.from_json(body)


def test_what_no_body_holds():
    """REST has no filter, and no tensor without a name beside others."""
    with pytest.raises(ferry.UnsupportedError, match="output_filter"):
        serving.PredictRequest("m", {"x": [1]}, output_filter=["y"]).to_json()
    with pytest.raises(ferry.UnsupportedError, match="beside others"):
        serving.PredictRequest("m", {"x": [1], "": [2]}).to_json()
    with pytest.raises(ferry.UnsupportedError, match="expected a dict"):
        serving.PredictRequest("m", [1.0]).to_json()
    with pytest.raises(ferry.UnsupportedError, match="no rows"):
        serving.PredictRequest("m", {"x": 1.0}, rows=True).to_json()
    with pytest.raises(ferry.UnsupportedError, match="complex"):
        serving.PredictRequest("m", {"x": [1j]}).to_json()


def test_no_rows():
    """A batch of no rows is answered by an empty list, as Serving does it, in every form."""
    outputs = {"y": np.zeros((0, 2), np.float32), "z": np.zeros((0,), np.int64)}
    for named in (outputs, {"y": outputs["y"]}):
        answer = serving.PredictResponse(named, rows=True)
        assert json.loads(answer.to_json()) == {"predictions": []}
        found = serving.PredictResponse.from_bytes(answer.to_bytes()).outputs
        assert {name: value.shape for name, value in found.items()} == {
            name: value.shape for name, value in named.items()
        }
    assert json.loads(serving.PredictResponse(outputs).to_json()) == {"outputs": {"y": [], "z": []}}
    assert json.loads(serving.PredictRequest("m", outputs).to_json()) == {
        "inputs": {"y": [], "z": []}
    }
    assert serving.PredictResponse.from_json(b'{"predictions": []}').outputs[""].shape == (0,)
