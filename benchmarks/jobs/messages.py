"""TensorFlow Serving's messages, beside its own package."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jobs import Limit, Way, Work, installed, job
from jobs.tensors import floats
from tensorferry import serving

if installed("tensorflow_serving"):
    from bench_serving import official_build, official_read, our_request

    FLOATS = {"small": 64, "medium": 1 << 18, "large": 1 << 24}

    @job("a Predict request to bytes", FLOATS, "floats")
    def build(folder: Path, count: int) -> Work:
        array = floats(count)
        return Work(
            Way(lambda: our_request(array).to_bytes()),
            {"tensorflow-serving-api": Way(partial(official_build, array))},
            Limit("memcpy", array.tobytes),
        )

    @job("bytes to a Predict request", FLOATS, "floats")
    def read(folder: Path, count: int) -> Work:
        data = official_build(floats(count))
        return Work(
            Way(partial(serving.PredictRequest.from_bytes, data), lambda found: found.inputs["x"]),
            {
                "tensorflow-serving-api": Way(
                    partial(official_read, data), lambda found: found[2]["x"]
                )
            },
        )


BODIES = {"small": 16, "medium": 16_384, "large": 1 << 20}


@job("a Predict request to JSON", BODIES, "floats")
def build_body(folder: Path, count: int) -> Work:
    array = floats(count)
    request = serving.PredictRequest("model", {"x": array})

    def values(body: str) -> Any:
        return np.array(json.loads(body)["inputs"]["x"], np.float32)

    return Work(
        Way(request.to_json, values),
        {"json": Way(lambda: json.dumps({"inputs": {"x": array.tolist()}}), values)},
    )


@job("JSON to a Predict request", BODIES, "floats")
def read_body(folder: Path, count: int) -> Work:
    body = json.dumps({"inputs": {"x": floats(count).tolist()}})
    return Work(
        Way(
            partial(serving.PredictRequest.from_json, body, dtypes="float32"),
            lambda request: request.inputs["x"],
        ),
        {"json": Way(lambda: np.array(json.loads(body)["inputs"]["x"], np.float32))},
    )
