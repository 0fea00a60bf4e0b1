"""Classify, Regress and MultiInference beside Serving's own classes, both ways, and in REST."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from serving_specs import fill, has_one_order, names_same, specs
from strategies import same

import tensorferry as ferry
from tensorferry import serving, tfio

FLOATS = st.floats(width=32)
KINDS = {"i": st.integers(-(2**63), 2**63 - 1), "f": FLOATS, "s": st.binary(max_size=20)}
DTYPES = {"i": np.int64, "f": np.float32, "s": object}


@st.composite
def rows(draw):
    """Examples as dicts of arrays; a feature's name says its kind, so that rows agree."""
    row = {}
    for name in draw(st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True)):
        kind = draw(st.sampled_from("ifs"))
        values = draw(st.lists(KINDS[kind], min_size=1, max_size=3))
        array = np.empty(len(values), DTYPES[kind])
        array[:] = values
        row[kind + name] = array
    return row


EXAMPLES = st.lists(rows(), max_size=3)
CONTEXT = st.none() | rows()


def filled(tf, row):
    """An official Example."""
    example = tf.train.Example()
    for name, values in row.items():
        feature = example.features.feature[name]
        kind = {"i": "int64_list", "f": "float_list", "s": "bytes_list"}[name[0]]
        getattr(feature, kind).value.extend(values.tolist())
    return example


def alike(left, right):
    """Whether two rows are the same, in whatever order."""
    return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)


@pytest.mark.parametrize("kind", ["classification", "regression"])
@given(spec=specs(), examples=EXAMPLES, context=CONTEXT)
def test_request_is_read_by_official(tf, apis, kind, spec, examples, context):
    """Serving's own classes find the model, the examples and the context."""
    ours, theirs = messages(apis, kind, "Request")
    data = ours(examples=examples, context=context, **spec).to_bytes()
    proto = theirs.FromString(data)
    official = theirs()
    fill(official.model_spec, spec)
    chosen = official.input.example_list
    if context is not None:
        chosen = official.input.example_list_with_context
        chosen.context.CopyFrom(filled(tf, context))
    chosen.SetInParent()
    chosen.examples.extend(filled(tf, row) for row in examples)

    assert proto == official or "nan" in str(proto)
    if all(map(has_one_order, [*examples, context or {}])):
        assert official.SerializeToString(deterministic=True) == data


@pytest.mark.parametrize("kind", ["classification", "regression"])
@given(spec=specs(), examples=EXAMPLES, context=CONTEXT)
def test_official_request_is_read(tf, apis, kind, spec, examples, context):
    """What Serving's own classes write is read, and what a model would see of it."""
    ours, theirs = messages(apis, kind, "Request")
    proto = theirs()
    fill(proto.model_spec, spec)
    chosen = proto.input.example_list
    if context is not None:
        chosen = proto.input.example_list_with_context
        chosen.context.CopyFrom(filled(tf, context))
    chosen.SetInParent()
    chosen.examples.extend(filled(tf, row) for row in examples)
    request = ours.from_bytes(proto.SerializeToString())

    assert names_same(request, spec)
    assert (request.context is None) == (context is None)
    seen = [{**(context or {}), **row} for row in examples]
    assert len(request.examples) == len(examples)
    assert all(map(alike, request.features(), seen))
    parsed = [tf.train.Example.FromString(record) for record in request.serialized()]
    assert [set(example.features.feature) for example in parsed] == [set(row) for row in seen]
    again = ours.from_bytes(request.to_bytes())
    assert (again.examples, again.context) == (request.examples, request.context)


def messages(apis, kind, side):
    """Our class and theirs."""
    name = {"classification": "Classify", "regression": "Regress"}[kind]
    official = {"classification": "Classification", "regression": "Regression"}[kind]
    return getattr(serving, name + side), getattr(getattr(apis, kind), official + side)


@given(specs(), st.lists(st.lists(st.tuples(st.text(max_size=200), FLOATS), max_size=3)))
def test_classes_both_ways(apis, spec, classes):
    """Labels and scores of any number of classes, the same bytes as Serving's own."""
    proto = apis.classification.ClassificationResponse()
    proto.result.SetInParent()
    for row in classes:
        added = proto.result.classifications.add()
        for label, score in row:
            added.classes.add(label=label, score=score)
    fill(proto.model_spec, spec)
    data = proto.SerializeToString(deterministic=True)
    response = serving.ClassifyResponse.from_bytes(data)
    lengths = [len(row) for row in classes]

    assert names_same(response, spec)
    ragged = isinstance(response.labels, ferry.RaggedTensor)
    assert ragged == (len(set(lengths)) > 1)
    flat = response.labels.flat_values if ragged else response.labels.ravel()
    assert flat.tolist() == [label.encode() for row in classes for label, _ in row]
    scores = response.scores.flat_values if ragged else response.scores.ravel()
    assert scores.tobytes() == np.array([s for row in classes for _, s in row], "f4").tobytes()
    back = apis.classification.ClassificationResponse.FromString(response.to_bytes())
    assert back == proto or "nan" in str(proto)
    assert response.to_bytes() == data


@pytest.mark.parametrize("ranked", [False, True])
def test_many_classes(apis, ranked):
    """Labels that come again, in one order or in each example's own, with scores of every kind."""
    generator = np.random.default_rng(0)
    labels = np.array([b"cat", b"", "f\u00e4hre".encode(), b"x" * 120, b"y" * 121, b"dog"], object)
    orders = np.array([generator.permutation(6) if ranked else np.arange(6) for _ in range(50)])
    for scores in (generator.random((50, 6), np.float32), np.zeros((50, 6), np.float32)):
        data = serving.ClassifyResponse(labels[orders], scores).to_bytes()
        proto = apis.classification.ClassificationResponse.FromString(data)
        found = [[(c.label, c.score) for c in row.classes] for row in proto.result.classifications]
        assert [[label.encode() for label, _ in row] for row in found] == labels[orders].tolist()
        assert [[score for _, score in row] for row in found] == scores.tolist()
        for buffer in (data, memoryview(data)):
            response = serving.ClassifyResponse.from_bytes(buffer)
            assert same(response.labels, labels[orders])
            assert same(response.scores, scores)


@given(specs(), st.lists(FLOATS, max_size=20))
def test_values_both_ways(apis, spec, values):
    """Values, zeros among them, the same bytes as Serving's own."""
    proto = apis.regression.RegressionResponse()
    proto.result.SetInParent()
    fill(proto.model_spec, spec)
    for value in values:
        proto.result.regressions.add(value=value)
    data = proto.SerializeToString(deterministic=True)
    response = serving.RegressResponse.from_bytes(data)

    assert names_same(response, spec)
    assert same(response.values, np.array(values, np.float32))
    assert response.to_bytes() == data


@given(st.lists(st.tuples(specs(), st.booleans()), max_size=3), EXAMPLES, CONTEXT)
def test_multi_inference_both_ways(tf, apis, tasks, examples, context):
    """Several tasks on the same examples, and their results."""
    names = {True: serving.CLASSIFY, False: serving.REGRESS}
    request = serving.MultiInferenceRequest(
        [serving.InferenceTask(method_name=names[kind], **spec) for spec, kind in tasks],
        examples,
        context=context,
    )
    proto = apis.inference.MultiInferenceRequest.FromString(request.to_bytes())
    assert [task.method_name for task in proto.tasks] == [names[kind] for _, kind in tasks]
    back = serving.MultiInferenceRequest.from_bytes(proto.SerializeToString())
    assert all(map(names_same, back.tasks, [spec for spec, _ in tasks]))
    assert [task.method_name for task in back.tasks] == [names[kind] for _, kind in tasks]
    assert len(back.examples) == len(examples)

    results = [
        serving.ClassifyResponse([["a", ""]], [[0.0, 0.5]], **spec)
        if kind
        else serving.RegressResponse([0.0, 2.5], **spec)
        for spec, kind in tasks
    ]
    response = serving.MultiInferenceResponse(results)
    official = apis.inference.MultiInferenceResponse.FromString(response.to_bytes())
    for (spec, kind), result in zip(tasks, official.results, strict=True):
        assert result.model_spec.name == spec["model"]
        if kind:
            (row,) = result.classification_result.classifications
            assert [(one.label, one.score) for one in row.classes] == [("a", 0), ("", 0.5)]
        else:
            assert [one.value for one in result.regression_result.regressions] == [0, 2.5]
    read = serving.MultiInferenceResponse.from_bytes(official.SerializeToString())
    assert [type(result) for result in read.results] == [type(result) for result in results]
    assert all(map(names_same, read.results, [spec for spec, _ in tasks]))


def test_any_value_is_a_feature(tf):
    """Python's values, narrow numbers and tensors become lists of the kinds that there are."""
    row = {
        "int": 3,
        "bool": True,
        "float": 0.5,
        "text": "ä",
        "bytes": b"\xff",
        "list": [1, 2],
        "small": np.uint8([7]),
        "half": np.float16(1.5),
        "tensor": tf.constant([1.5, 2.5], tf.bfloat16),
        "none": None,
    }
    (features,) = serving.ClassifyRequest("m", [row]).features()
    request = serving.ClassifyRequest("m", [row])
    parsed = tf.train.Example.FromString(request.serialized()[0]).features.feature

    assert {name: (str(values.dtype), values.tolist()) for name, values in features.items()} == {
        "int": ("int64", [3]),
        "bool": ("int64", [1]),
        "float": ("float32", [0.5]),
        "text": ("object", ["ä".encode()]),
        "bytes": ("object", [b"\xff"]),
        "list": ("int64", [1, 2]),
        "small": ("int64", [7]),
        "half": ("float32", [1.5]),
        "tensor": ("float32", [1.5, 2.5]),
    }
    assert parsed["bytes"].bytes_list.value == [b"\xff"]
    assert parsed["tensor"].float_list.value == [1.5, 2.5]
    assert "none" not in parsed


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (np.zeros((2, 2), np.float32), "one dimension"),
        (np.float64([0.1]), "float64"),
        (np.uint64([1]), "uint64"),
        (np.complex64([1]), "complex64"),
        ([], "does not say its kind"),
        (ferry.RaggedTensor.from_rows([[1]]), "no dense tensor"),
        ({"a": 1}, "no dense tensor"),
    ],
)
def test_what_no_feature_holds(value, match):
    """A value that would have to be flattened, rounded or wrapped is refused, with its name."""
    with pytest.raises(ferry.UnsupportedError, match=match) as caught:
        serving.ClassifyRequest("m", [{"ok": 1}, {"x": value}]).to_bytes()
    assert caught.value.tensor == "x"
    assert "row 1" in str(caught.value)


def test_what_no_examples_are():
    """One row instead of a list, rows that are no dicts, a feature of two kinds."""
    for examples in ({"x": 1}, b"", "text"):
        with pytest.raises(ferry.UnsupportedError, match="expected a list of rows"):
            serving.RegressRequest("m", examples).to_bytes()
    with pytest.raises(ferry.UnsupportedError, match="expected a dict of features"):
        serving.RegressRequest("m", [3]).to_bytes()
    with pytest.raises(ferry.FormatError, match="float32 values, expected int64") as caught:
        serving.RegressRequest("m", [{"x": 1}, {"x": 1.5}]).to_bytes()
    assert "schema" not in str(caught.value)


def test_context_is_in_every_example(tf):
    """Both parsers of tf.io see the context in each example, and an example's own feature first."""
    request = serving.ClassifyRequest(
        "m", [{"x": 1.0}, {"x": 2.0, "c": 9}], context={"c": 5, "d": "all"}
    )
    described = {
        "x": tf.io.FixedLenFeature([], tf.float32),
        "c": tf.io.FixedLenFeature([], tf.int64),
        "d": tf.io.FixedLenFeature([], tf.string),
    }
    for parse in (tf.io.parse_example, tfio.parse_example):
        parsed = parse(request.serialized(), described)
        assert np.asarray(parsed["x"]).tolist() == [1.0, 2.0]
        assert np.asarray(parsed["c"]).tolist() == [5, 9]
        assert np.asarray(parsed["d"]).tolist() == [b"all", b"all"]
    assert [row["c"].tolist() for row in request.features()] == [[5], [9]]


@pytest.mark.parametrize(
    ("labels", "scores", "match"),
    [
        (None, None, "neither"),
        ([["a"]], [[1.0, 2.0]], "expected a score for each"),
        (["a"], [1.0], "expected \\[examples, classes\\]"),
        ([[1]], None, "expected strings"),
        ([[b"\xff"]], None, "UTF-8"),
        (None, np.float64([[0.1]]), "float32"),
        (None, [["a"]], "float32"),
    ],
)
def test_what_no_classes_are(labels, scores, match):
    """Labels and scores that do not fit each other, or the message."""
    with pytest.raises(ferry.UnsupportedError, match=match):
        serving.ClassifyResponse(labels, scores).to_bytes()


def test_what_no_values_are():
    """Two dimensions, strings, and what is no response."""
    for values in ([[1.0]], ["a"], np.float64([0.1])):
        with pytest.raises(ferry.UnsupportedError):
            serving.RegressResponse(values).to_bytes()
    with pytest.raises(ferry.UnsupportedError, match="expected a ClassifyResponse"):
        serving.MultiInferenceResponse([3]).to_bytes()


def test_labels_or_scores_alone(apis):
    """A model may have only one of the two."""
    for labels, scores in (([["a", "b"]], None), (None, [[0.5, 0.25]])):
        data = serving.ClassifyResponse(labels, scores).to_bytes()
        proto = apis.classification.ClassificationResponse.FromString(data)
        found = [(one.label, one.score) for one in proto.result.classifications[0].classes]
        assert found == ([("a", 0), ("b", 0)] if labels else [("", 0.5), ("", 0.25)])


# The bodies of the REST API, as its documentation has them.


def test_documented_classify():
    """A request with binary features, and an answer of pairs; "result" is read as well."""
    body = {
        "signature_name": "classify_objects",
        "examples": [
            {"image": {"b64": "aW1hZ2UgYnl0ZXM="}, "caption": "seaside"},
            {"image": {"b64": "YXdlc29tZSBpbWFnZSBieXRlcw=="}, "caption": "mountains"},
        ],
    }
    request = serving.ClassifyRequest.from_json(json.dumps(body), path="/v1/models/m:classify")
    assert request.signature_name == "classify_objects"
    assert [row["image"][0] for row in request.examples] == [b"image bytes", b"awesome image bytes"]
    # Text stands as text wherever it is some.
    assert json.loads(request.to_json())["examples"][0]["image"] == "image bytes"

    for key in ("result", "results"):
        answer = json.dumps({key: [[["cat", 0.5], ["dog", 0.25]], [["dog", 1], ["", 0.0]]]})
        response = serving.ClassifyResponse.from_json(answer)
        assert response.labels.tolist() == [[b"cat", b"dog"], [b"dog", b""]]
        assert response.scores.tolist() == [[0.5, 0.25], [1, 0]]
        assert response.scores.dtype == np.float32
    assert json.loads(response.to_json()) == {
        "results": [[["cat", 0.5], ["dog", 0.25]], [["dog", 1.0], ["", 0.0]]]
    }


def test_documented_regress():
    """A request of one feature, and an answer of numbers."""
    request = serving.RegressRequest(
        "half_plus_three", [{"x": 1.0}, {"x": 2.0}], signature_name="tensorflow/serving/regress"
    )
    assert request.to_json() == (
        b'{"signature_name":"tensorflow/serving/regress","examples":[{"x":1.0},{"x":2.0}]}'
    )
    response = serving.RegressResponse.from_json('{\n    "results": [3.5, 4.0]\n}')
    assert response.values.tolist() == [3.5, 4.0]
    assert response.to_json() == b'{"results":[3.5,4.0]}'


@given(st.lists(rows(), min_size=1, max_size=3), CONTEXT)
def test_json_roundtrip(examples, context):
    """Examples and context come back from JSON, in their kinds."""
    assume(
        all(
            np.isfinite(v).all()
            for row in [*examples, context or {}]
            for n, v in row.items()
            if n[0] == "f"
        )
    )
    request = serving.ClassifyRequest("m", examples, context=context)
    back = serving.ClassifyRequest.from_json(request.to_json())

    assert all(map(alike, back.examples, examples))
    assert (back.context is None) == (context is None)
    assert context is None or alike(back.context, context)


def test_what_json_has_no_kind_for():
    """An empty list, and a request or an answer without examples."""
    empty = [{"x": np.zeros(0, np.int64)}]
    with pytest.raises(ferry.UnsupportedError, match="no kind"):
        serving.ClassifyRequest("m", empty).to_json()
    for message in (
        serving.ClassifyRequest("m", []),
        serving.ClassifyResponse(np.empty((0, 2), object), None),
        serving.RegressResponse([]),
    ):
        with pytest.raises(ferry.UnsupportedError, match="at least one"):
            message.to_json()


def test_rows_that_each_have_a_feature_of_their_own():
    """The work and the memory grow with the rows, not with rows times features."""
    rows = [{f"feature {number}": number} for number in range(2000)]
    tracemalloc.start()
    data = serving.ClassifyRequest("m", rows).to_bytes()
    found = serving.ClassifyRequest.from_bytes(data).features()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert [{name: values.tolist() for name, values in row.items()} for row in found] == [
        {f"feature {number}": [number]} for number in range(2000)
    ]
    assert peak < 200 * len(data)


def test_a_feature_keeps_its_kind_in_all_examples():
    """Also in examples that are far apart."""
    first = serving.ClassifyRequest("m", [{"x": 1}] * 100).serialized()
    other = serving.ClassifyRequest("m", [{"x": 1.5}]).serialized()
    with pytest.raises(ferry.FormatError, match="'x' is of different kinds"):
        serving.ClassifyRequest("m", [*first, *other]).features()
