"""TensorFlow Serving's requests and responses, without TensorFlow and without generated code.

    request = serving.PredictRequest("half_plus_two", {"x": [1.0, 2.0, 5.0]})

    request.method, request.to_bytes()   # gRPC: a method's name and a message
    request.path, request.to_json()      # REST: the path of a URL and a body

    serving.PredictResponse.from_bytes(data).outputs     # a dict of arrays
    serving.PredictResponse.from_json(body).outputs

Each message has the same verbs: `to_bytes`, `from_bytes`, `to_json`, `from_json`, as far as gRPC
and REST have it. Nothing here opens a connection. `METHODS` has each of gRPC's methods with the
messages that go there and come back.
"""

from typing import Any, NamedTuple

from tensorferry.serving.inference import (
    CLASSIFY as CLASSIFY,
    REGRESS as REGRESS,
    ClassifyRequest as ClassifyRequest,
    ClassifyResponse as ClassifyResponse,
    InferenceTask as InferenceTask,
    MultiInferenceRequest as MultiInferenceRequest,
    MultiInferenceResponse as MultiInferenceResponse,
    RegressRequest as RegressRequest,
    RegressResponse as RegressResponse,
)
from tensorferry.serving.metadata import (
    GetModelMetadataRequest as GetModelMetadataRequest,
    GetModelMetadataResponse as GetModelMetadataResponse,
)
from tensorferry.serving.predict import (
    PredictRequest as PredictRequest,
    PredictResponse as PredictResponse,
)
from tensorferry.serving.status import (
    GetModelStatusRequest as GetModelStatusRequest,
    GetModelStatusResponse as GetModelStatusResponse,
    ModelVersionStatus as ModelVersionStatus,
)


class Method(NamedTuple):
    """A method of gRPC.

    Attributes:
        path: Its full name, which is the path of the call.
        request: The class of the message that is sent.
        response: The class of the message that comes back.
    """

    path: str
    request: Any
    response: Any


METHODS = {
    request.method.rpartition("/")[2]: Method(request.method, request, response)
    for request, response in (
        (PredictRequest, PredictResponse),
        (ClassifyRequest, ClassifyResponse),
        (RegressRequest, RegressResponse),
        (MultiInferenceRequest, MultiInferenceResponse),
        (GetModelMetadataRequest, GetModelMetadataResponse),
        (GetModelStatusRequest, GetModelStatusResponse),
    )
}
