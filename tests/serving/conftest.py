"""The oracle of these tests: the classes that Serving's own package has for its messages."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def apis(tf):
    """The modules of tensorflow_serving.apis."""
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        input_pb2,
        predict_pb2,
        prediction_service_pb2_grpc,
        regression_pb2,
    )

    return SimpleNamespace(
        classification=classification_pb2,
        metadata=get_model_metadata_pb2,
        status=get_model_status_pb2,
        inference=inference_pb2,
        input=input_pb2,
        predict=predict_pb2,
        service=prediction_service_pb2_grpc,
        regression=regression_pb2,
    )
