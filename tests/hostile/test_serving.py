"""Serving's messages and bodies that lie: each gives a typed error, never a crash."""

from __future__ import annotations

import contextlib
import json
import time
import tracemalloc

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import serving

SPEC = {"model": "m", "signature_name": "s", "version": 3}
TENSORS = {"x": np.float32([1, 2]), "s": np.array([b"ab", b""], object), "b": np.array([True])}
ROWS = [{"i": 1, "f": 0.5, "s": "a"}, {"i": [2, 3]}]
CLASSES = serving.ClassifyResponse([["cat", "dög"], ["", "x"]], [[0.5, 0.0], [1.0, 2.0]], **SPEC)
VALUES = serving.RegressResponse([0.5, 0.0, 2.0], **SPEC)

MESSAGES = {
    "PredictRequest": serving.PredictRequest(inputs=TENSORS, output_filter=["y"], **SPEC),
    "PredictResponse": serving.PredictResponse(TENSORS, **SPEC),
    "ClassifyRequest": serving.ClassifyRequest(examples=ROWS, context={"c": 7}, **SPEC),
    "RegressRequest": serving.RegressRequest(examples=ROWS, **SPEC),
    "ClassifyResponse": CLASSES,
    "RegressResponse": VALUES,
    "MultiInferenceRequest": serving.MultiInferenceRequest(
        [serving.InferenceTask("m", serving.REGRESS)], ROWS
    ),
    "MultiInferenceResponse": serving.MultiInferenceResponse([CLASSES, VALUES]),
    "GetModelStatusRequest": serving.GetModelStatusRequest(**SPEC),
    "GetModelStatusResponse": serving.GetModelStatusResponse(
        [serving.ModelVersionStatus(3, "END", "INTERNAL", "why")]
    ),
    "GetModelMetadataRequest": serving.GetModelMetadataRequest(**SPEC),
}
SAMPLES = {name: (type(message), message.to_bytes()) for name, message in MESSAGES.items()}


def field(number, *parts):
    """A message, or what is as long as it says, as a field."""
    body = b"".join(parts)
    return bytes([number << 3 | 2, len(body)]) + body


# By hand: a map with an Any of a map of signatures, of which one has an input.
SHAPE = field(3, field(2, b"\x08\x02"))
SIGNATURE = field(1, field(1, b"x"), field(2, field(1, b"x:0"), b"\x10\x01", SHAPE))
SIGNATURES = field(2, field(1, field(1, b"serving_default"), field(2, SIGNATURE)))
TYPE = field(1, b"type/tensorflow.serving.SignatureDefMap")
SAMPLES["GetModelMetadataResponse"] = (
    serving.GetModelMetadataResponse,
    field(2, field(1, b"signature_def"), field(2, TYPE, SIGNATURES)),
)


def use(message):
    """Whatever can be done with a message that was read."""
    for name in ("features", "serialized"):
        if hasattr(message, name):
            getattr(message, name)()
    for name in ("to_bytes", "to_json"):
        if hasattr(message, name):
            getattr(message, name)()


def read(kind, data):
    """Reads a message and uses it; the error's place lies in the bytes."""
    try:
        message = kind.from_bytes(data)
    except ferry.FerryError as error:
        assert error.offset is None or 0 <= error.offset <= len(data)
        return None
    with contextlib.suppress(ferry.FerryError):
        use(message)
    return message


@pytest.mark.parametrize(("kind", "sample"), SAMPLES.values(), ids=SAMPLES)
def test_whole(kind, sample):
    """The samples themselves are sound."""
    message = kind.from_bytes(sample)

    assert not hasattr(message, "to_bytes") or message.to_bytes() == sample


@pytest.mark.parametrize(("kind", "sample"), SAMPLES.values(), ids=SAMPLES)
def test_cut_at_every_offset(kind, sample):
    """Cut anywhere, a message is refused, or is a shorter one at the end of a field."""
    for end in range(len(sample)):
        read(kind, sample[:end])
    from tensorferry import _native

    ends = [last for _, wire, _, last in _native.MessageFields(sample, 0, len(sample)) if wire == 2]
    for end in set(range(1, len(sample))) - set(ends):
        with pytest.raises(ferry.FormatError):
            kind.from_bytes(sample[:end])


@pytest.mark.parametrize(("kind", "sample"), SAMPLES.values(), ids=SAMPLES)
def test_every_bit_flipped(kind, sample):
    """Any flipped bit gives another message or a typed error."""
    for position in range(len(sample) * 8):
        damaged = bytearray(sample)
        damaged[position // 8] ^= 1 << position % 8
        read(kind, bytes(damaged))


@pytest.mark.parametrize(("kind", "sample"), SAMPLES.values(), ids=SAMPLES)
def test_every_byte_replaced(kind, sample):
    """So does a byte that is the start of a long number, or of none."""
    for position in range(len(sample)):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            damaged = bytearray(sample)
            damaged[position] = value
            read(kind, bytes(damaged))


def entry(name, tensor):
    """An input as a field of a PredictRequest."""
    return field(2, field(1, name.encode()), field(2, tensor))


SMALL = ferry.dumps(np.float32([1]))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (entry("x", SMALL) + entry("x", SMALL), "comes twice"),
        (b"\n\x03\n\x01a\n\x03\n\x01b", "comes twice"),
        (b"\n\x06\n\x01a\n\x01b", "comes twice"),
        (b"\n\x05\x12\x00\x22\x01a", "a version and a label"),
        (b"\n\x02\x08\x01", "wire type 0"),
        (b"\x10\x01", "wire type 0"),
        (b"\x15\0\0\0\0", "wire type 5"),
        (b"\n\x03\n\x01\xff", "UTF-8"),
        (b"\x1a\x01\xff", "UTF-8"),
        (b"\x12\x00", "dtype number 0"),
        (entry("x", b""), "dtype number 0"),
        (entry("x", b"\x08\x63"), "dtype number 99"),
        (entry("x", b"\x08\x14"), "resource"),
        (b"\n\xff\xff\xff\xff\x0f", "ends"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "ends|long|end"),
        (entry("x", b"\x08\x01\x12\x0b\x12\x09\x08" + b"\xff" * 7 + b"\x7f"), "takes|elements|dim"),
    ],
)
def test_lies(data, match):
    """Repeated fields, wrong wire types, sizes beyond the message, tensors that are none."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises((ferry.FormatError, ferry.UnsupportedError), match=match):
            serving.PredictRequest.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 5


def test_repeated_inputs_have_an_official_meaning(tf):
    """Protobuf takes the last of two inputs of one name, a choice that no writer ever asks for."""
    from tensorflow_serving.apis import predict_pb2

    data = entry("x", SMALL) + entry("x", ferry.dumps(np.float32([2])))
    proto = predict_pb2.PredictRequest.FromString(data)

    assert tf.make_ndarray(proto.inputs["x"]).tolist() == [2]
    with pytest.raises(ferry.FormatError, match="'x' comes twice"):
        serving.PredictRequest.from_bytes(data)


def test_huge_shape():
    """A tensor that fills a huge shape with one number is no reason to allocate it."""
    tensor = b"\x08\x01\x12\x08\x12\x06\x08" + b"\x80\x80\x80\x80\x40" + b"\x2a\x04\0\0\x80\x3f"
    with pytest.raises(ferry.LimitError) as caught:
        serving.PredictRequest.from_bytes(entry("x", tensor))
    assert caught.value.tensor == "x"


def test_ragged_variant():
    """A ragged tensor in a variant is no dense one."""
    ragged = (
        b'\x08\x15\x12\x00"CB\n\x13RaggedTensorVariant\x1a\r\x08\t\x12\x04\x12\x02\x08\x03R\x03'
        b"\x00\x02\x02\x1a\r\x08\t\x12\x04\x12\x02\x08\x03R\x03\x00\x01\x03\x1a\r\x08\x03\x12\x04"
        b"\x12\x02\x08\x03:\x03\x01\x02\x03"
    )
    with pytest.raises(ferry.FormatError, match="expected a dense tensor"):
        serving.PredictRequest.from_bytes(entry("x", ragged))


def test_unknown_fields_are_passed_over():
    """Fields of later versions, groups among them, do not matter."""
    known = serving.PredictRequest("m", TENSORS).to_bytes()
    unknown = b"\x2a\x02\x08\x01" + b"\x32\x01c" + b"\xa3\x06\x08\x01\xa4\x06" + b"\xf8\x7f\x01"
    for data in (known + unknown, unknown + known):
        assert serving.PredictRequest.from_bytes(data).to_bytes() == known


def test_two_kinds_of_input():
    """Examples with and without a context at once, which protobuf would choose among."""
    with pytest.raises(ferry.FormatError, match="expected one of them"):
        serving.ClassifyRequest.from_bytes(b"\x12\x04\x0a\x00\x12\x00")


def test_examples_that_are_none():
    """Bytes that are no Example are told by their number, when they are looked at."""
    request = serving.ClassifyRequest.from_bytes(b"\x12\x07\x0a\x05\x0a\x00\x0a\x01\xff")
    with pytest.raises(ferry.FormatError, match="example 1"):
        request.features()


def test_one_result_for_each_task():
    """A result of no kind, or of two, is refused."""
    for result in (b"\n\x00", b"\n\x04\x12\x00\x1a\x00"):
        with pytest.raises(ferry.FormatError, match="expected classes or values"):
            serving.MultiInferenceResponse.from_bytes(result)


def test_damaged_classes_as_official(tf):
    """Of a damaged answer, what is not refused is what Serving's own classes read."""
    from tensorflow_serving.apis import classification_pb2

    generator = np.random.default_rng(0)
    labels = np.array([b"", b"a", "ö".encode(), b"x" * 121], object)
    accepted = 0
    for _ in range(4000):
        orders = generator.integers(0, 4, (generator.integers(1, 5), 3))
        if generator.random() < 0.5:
            orders[:] = orders[0]
        scores = generator.choice(np.float32([0, 0.5, 2]), orders.shape)
        damaged = bytearray(serving.ClassifyResponse(labels[orders], scores).to_bytes())
        for place in generator.integers(0, len(damaged), 2):
            damaged[place] = generator.integers(0, 256)
        try:
            response = serving.ClassifyResponse.from_bytes(damaged)
        except ferry.FormatError:
            continue
        accepted += 1
        proto = classification_pb2.ClassificationResponse.FromString(bytes(damaged))
        rows = [row.classes for row in proto.result.classifications]
        for part, values in (
            (response.labels, [one.label.encode() for row in rows for one in row]),
            (response.scores, np.float32([one.score for row in rows for one in row])),
        ):
            flat = part.flat_values if isinstance(part, ferry.RaggedTensor) else part.ravel()
            assert np.array_equal(flat, values, equal_nan=part is response.scores)

    assert accepted > 500


def test_slices_of_a_larger_buffer():
    """A message may lie in any buffer; what is writable is not shared as such."""
    for kind, sample in SAMPLES.values():
        for buffer in (bytearray(sample), memoryview(sample), np.frombuffer(sample, np.uint8)):
            assert type(kind.from_bytes(buffer)) is kind


BODIES = {
    serving.PredictRequest: ("inputs", "instances"),
    serving.PredictResponse: ("outputs", "predictions"),
    serving.ClassifyRequest: ("examples",),
    serving.ClassifyResponse: ("results",),
    serving.RegressResponse: ("results",),
    serving.GetModelStatusResponse: ("model_version_status",),
}
WRONG = [
    "null",
    "3",
    '"text"',
    "true",
    "{}",
    "[null]",
    "[[1], 2]",
    '[{"x": null}]',
    '[{"x": {"b64": 3}}]',
    '[{"x": {"b64": "!"}}]',
    '[{"x": [1, "a"]}]',
    '[{"x": [[1]]}, 3]',
    '["\\ud800"]',
    "[1e400, -1e400, 123456789012345678901234567890, {}]",
    "[" + "9" * 5000 + "]",
    "[" * 90 + "]" * 90,
    "[" * 100_000 + "]" * 100_000,
    '{"x":' * 100_000 + "1" + "}" * 100_000,
    '[{"x": 1, "x": 2}]',
    "[1",
    "[01]",
    "[NaN, nan]",
]


@pytest.mark.parametrize("kind", list(BODIES)[:-1], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("content", WRONG, ids=range(len(WRONG)))
def test_wrong_bodies(kind, content):
    """Bodies of the wrong kinds, with repeated keys, huge numbers, or nested without end."""
    for form in BODIES[kind]:
        try:
            kind.from_json(f'{{"{form}": {content}}}')
        except ferry.FerryError:
            continue
        # Columns may be scalars, or none at all.
        assert form in ("inputs", "outputs")
        assert json.loads(content) in ("text", 3, True, {})


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        '{"inputs": [1], "instances": [1], "outputs": [1], "predictions": [1]}',
        '{"inputs": [1], "inputs": [2], "outputs": [1], "outputs": [2]}',
        '{"results": [], "result": []}',
        '{"error": null}',
        '{"error": {"a": []}}',
        '{"examples": [{}], "signature_name": 3, "inputs": [1], "outputs": {"a": null}}',
        '{"examples": [], "context": []}',
    ],
)
def test_no_body(kind, body):
    """What is no body of a kind is refused, as bytes and as text."""
    with pytest.raises(ferry.FerryError):
        kind.from_json(body)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_cut_bodies(kind):
    """A body that is cut anywhere is refused."""
    body = {
        serving.PredictRequest: serving.PredictRequest("m", TENSORS).to_json(),
        serving.PredictResponse: serving.PredictResponse(TENSORS).to_json(),
        serving.ClassifyRequest: serving.ClassifyRequest("m", ROWS, context={"c": 1}).to_json(),
        serving.ClassifyResponse: CLASSES.to_json(),
        serving.RegressResponse: VALUES.to_json(),
        serving.GetModelStatusResponse: MESSAGES["GetModelStatusResponse"].to_json(),
    }[kind]
    kind.from_json(body)
    for end in range(len(body)):
        with pytest.raises(ferry.FormatError):
            kind.from_json(body[:end])


def test_rows_of_different_shapes():
    """Serving's rows have one shape."""
    with pytest.raises(ferry.FormatError, match="expected one shape"):
        serving.PredictRequest.from_json('{"instances": [[1], [1, 2]]}')
