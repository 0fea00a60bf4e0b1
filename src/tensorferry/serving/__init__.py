"""TensorFlow Serving's requests and responses, without TensorFlow and without generated code.

    request = serving.PredictRequest("half_plus_two", {"x": [1.0, 2.0, 5.0]})

    request.method, request.to_bytes()   # gRPC: a method's name and a message
    request.path, request.to_json()      # REST: the path of a URL and a body

    serving.PredictResponse.from_bytes(data).outputs     # a dict of arrays
    serving.PredictResponse.from_json(body).outputs

Each message has the same verbs: `to_bytes` and `from_bytes` for gRPC, `to_json` and `from_json` for
REST, if REST has the message. Nothing here opens a connection. `METHODS` lists the methods of gRPC
with their requests and responses.

    predict      PredictRequest, PredictResponse
    inference    classify, regress and multi-inference
    metadata     the signatures of a model
    status       the versions of a model
    model        which model a message is about
    messages, examples, results, bodies    the parts of messages and of REST bodies
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
        path: The full name of the method, which is the path of the call.
        request: The class of the request.
        response: The class of the response.
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
