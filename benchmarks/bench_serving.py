"""How long do TensorFlow Serving's messages take to build and to read, beside its own package?

The official way is the generated classes of `tensorflow-serving-api` with `tf.make_tensor_proto`
and `tf.make_ndarray`. Both sides work on the same values in one process and take turns; before
anything is timed, each reads what the other wrote. JSON is measured beside `json.dumps` of
`tolist()`, which is what people send, and `np.array` of `json.loads`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from measure import Report, best, duration
from tensorflow_serving.apis import classification_pb2, predict_pb2

from tensorferry import serving

SIZES = {"Predict, 64 floats": 64, "Predict, 64 MB": 16 << 20}


def official_build(array: Any) -> bytes:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "model"
    request.model_spec.signature_name = "serving_default"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(array))
    return request.SerializeToString()  # type: ignore[no-any-return]


def official_read(data: bytes) -> tuple[str, str, dict[str, Any]]:
    request = predict_pb2.PredictRequest.FromString(data)
    inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
    return request.model_spec.name, request.model_spec.signature_name, inputs


def our_request(array: Any) -> serving.PredictRequest:
    return serving.PredictRequest("model", {"x": array}, signature_name="serving_default")


def official_classes(labels: list[list[str]], scores: list[list[float]]) -> bytes:
    response = classification_pb2.ClassificationResponse()
    for row in zip(labels, scores, strict=True):
        classes = response.result.classifications.add().classes
        for label, score in zip(*row, strict=True):
            classes.add(label=label, score=score)
    return response.SerializeToString()  # type: ignore[no-any-return]


def official_read_classes(data: bytes) -> tuple[list[list[str]], Any]:
    result = classification_pb2.ClassificationResponse.FromString(data).result
    rows = [[(one.label, one.score) for one in row.classes] for row in result.classifications]
    labels = [[label for label, _ in row] for row in rows]
    return labels, np.array([[score for _, score in row] for row in rows], np.float32)


def compare(report: Report, what: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    times = best({"tensorferry": ours, "others": theirs})
    ratio = times["others"] / times["tensorferry"]
    report.add(
        what=what,
        tensorferry=duration(times["tensorferry"]),
        others=duration(times["others"]),
        ratio=ratio,
    )


def main() -> None:
    report = Report("Serving's messages, built and read, and how many times longer the others take")
    for label, size in SIZES.items():
        array = np.random.default_rng(0).standard_normal(size, dtype=np.float32)
        data, official = our_request(array).to_bytes(), official_build(array)
        name, signature, inputs = official_read(data)
        request = serving.PredictRequest.from_bytes(official)
        assert (name, signature) == (request.model, request.signature_name)
        assert np.array_equal(inputs["x"], array)
        assert np.array_equal(request.inputs["x"], array)
        assert data == official
        predict(report, label, array, data)
    classes(report)
    bodies(report)
    report.notes.append("The others: tensorflow-serving-api with TensorFlow; for JSON, Python's.")
    report.notes.append(
        "Reading is not timed to the first touch of the values: arrays lie in the message."
    )
    report.finish("serving")


def predict(report: Report, label: str, array: Any, data: bytes) -> None:
    theirs = partial(official_build, array)
    compare(report, f"{label}: build", lambda: our_request(array).to_bytes(), theirs)
    if array.size > 64:
        what = f"{label}: build, as buffers"
        compare(report, what, lambda: our_request(array).to_buffers(), theirs)
    ours = partial(serving.PredictRequest.from_bytes, data)
    compare(report, f"{label}: read", ours, partial(official_read, data))


def classes(report: Report) -> None:
    labels = [[f"class{place}" for place in range(10)]] * 128
    scores = np.random.default_rng(0).random((128, 10), np.float32)
    response = serving.ClassifyResponse(labels, scores)
    numbers = scores.tolist()
    data = response.to_bytes()
    assert data == official_classes(labels, numbers)
    read = serving.ClassifyResponse.from_bytes(data)
    theirs = official_read_classes(data)
    assert np.array_equal(read.scores, theirs[1])
    assert read.labels.astype(str).tolist() == theirs[0]
    order = np.argsort(-scores, axis=1)
    ranked = serving.ClassifyResponse(
        np.array(labels, object)[np.arange(128)[:, None], order],
        np.take_along_axis(scores, order, axis=1),
    ).to_bytes()
    assert (
        serving.ClassifyResponse.from_bytes(ranked).labels.astype(str).tolist()
        == (official_read_classes(ranked)[0])
    )
    what = "Classify, answer of 128 x 10 classes"
    compare(report, f"{what}: build", response.to_bytes, lambda: official_classes(labels, numbers))
    compare(
        report,
        f"{what}: read",
        lambda: serving.ClassifyResponse.from_bytes(data),
        lambda: official_read_classes(data),
    )
    compare(
        report,
        f"{what}, best first: read",
        lambda: serving.ClassifyResponse.from_bytes(ranked),
        lambda: official_read_classes(ranked),
    )


def bodies(report: Report) -> None:
    array = np.random.default_rng(0).standard_normal((128, 128), dtype=np.float32)
    request = serving.PredictRequest("model", {"x": array})
    text = request.to_json()
    plain = json.dumps({"inputs": {"x": array.tolist()}})
    back = serving.PredictRequest.from_json(text, dtypes="float32").inputs["x"]
    assert np.array_equal(back, array)
    assert np.array_equal(np.array(json.loads(text)["inputs"]["x"], np.float32), array)
    what = f"JSON, 128 x 128 floats ({len(text):,} bytes, others {len(plain):,})"
    compare(
        report,
        f"{what}: build",
        request.to_json,
        lambda: json.dumps({"inputs": {"x": array.tolist()}}),
    )
    compare(
        report,
        f"{what}: read",
        lambda: serving.PredictRequest.from_json(text, dtypes="float32"),
        lambda: np.array(json.loads(plain)["inputs"]["x"], np.float32),
    )


if __name__ == "__main__":
    main()
