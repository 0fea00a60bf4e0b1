"""Real exchanges on loopback: gRPC with Serving's own service on one side, and REST over HTTP.

A TensorFlow model is behind both servers. The gRPC server and stub are those that Serving's package
has; the HTTP server follows the documented rules of the REST API with Python's own json.
"""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import re
import threading
from concurrent import futures

import grpc
import numpy as np
import pytest
from strategies import same

import tensorferry as ferry
from tensorferry import serving


@pytest.fixture(scope="module")
def model(tf):
    """A model with signatures for Predict, Classify and Regress."""
    features = {
        "x": tf.io.FixedLenFeature([], tf.float32),
        "tag": tf.io.FixedLenFeature([], tf.string, default_value=""),
    }

    class Model(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 3], tf.float32, name="x"),
                tf.TensorSpec([None], tf.string, name="name"),
            ]
        )
        def predict(self, x, name):
            return {
                "y": x * 2 + 1,
                "length": tf.strings.length(name),
                "name_bytes": tf.strings.join([name, b"\xff"]),
            }

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def classify(self, examples):
            parsed = tf.io.parse_example(examples, features)
            scores = tf.stack([parsed["x"], 1 - parsed["x"]], axis=1)
            labels = tf.stack([parsed["tag"], tf.fill(tf.shape(parsed["tag"]), "other")], axis=1)
            return {"classes": labels, "scores": scores}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def regress(self, examples):
            return tf.io.parse_example(examples, features)["x"] / 2 + 3

    return Model()


INPUTS = {"x": np.float32([[1, 2, 3], [4, 5, 6.5]]), "name": np.array([b"ab", b"\xfe"], object)}
EXAMPLES = [{"x": 0.25}, {"x": 0.75, "tag": b"own"}]
CONTEXT = {"tag": "all"}


def expected(model):
    outputs = model.predict(**INPUTS)
    return {name: np.asarray(tensor.numpy()) for name, tensor in outputs.items()}


@pytest.fixture(scope="module")
def official(tf, apis, model):
    """A server made of Serving's own service; gives its channel."""

    class Service(apis.service.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            if request.model_spec.name != "model":
                context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
            inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
            response = apis.predict.PredictResponse(model_spec=request.model_spec)
            response.model_spec.version.value = 7
            for name, tensor in model.predict(**inputs).items():
                if not request.output_filter or name in request.output_filter:
                    response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            return response

        def _examples(self, given):
            shared = given.example_list_with_context.context.SerializeToString()
            listed = given.example_list_with_context.examples or given.example_list.examples
            return tf.constant([shared + example.SerializeToString() for example in listed])

        def Classify(self, request, context):  # noqa: N802
            response = apis.classification.ClassificationResponse(model_spec=request.model_spec)
            self._classify(request.input, response.result)
            return response

        def _classify(self, given, result):
            found = model.classify(self._examples(given))
            for labels, scores in zip(
                found["classes"].numpy(), found["scores"].numpy(), strict=True
            ):
                classes = result.classifications.add().classes
                for label, score in zip(labels, scores, strict=True):
                    classes.add(label=label.decode(), score=score)

        def Regress(self, request, context):  # noqa: N802
            response = apis.regression.RegressionResponse(model_spec=request.model_spec)
            for value in model.regress(self._examples(request.input)).numpy():
                response.result.regressions.add(value=value)
            return response

        def MultiInference(self, request, context):  # noqa: N802
            response = apis.inference.MultiInferenceResponse()
            for task in request.tasks:
                result = response.results.add(model_spec=task.model_spec)
                if task.method_name == "tensorflow/serving/classify":
                    self._classify(request.input, result.classification_result)
                else:
                    for value in model.regress(self._examples(request.input)).numpy():
                        result.regression_result.regressions.add(value=value)
            return response

    server = grpc.server(futures.ThreadPoolExecutor(2))
    apis.service.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    server.stop(None).wait()


def call(channel, request):
    """One call without generated code."""
    method = serving.METHODS[request.method.rpartition("/")[2]]
    stub = channel.unary_unary(
        method.path,
        request_serializer=method.request.to_bytes,
        response_deserializer=method.response.from_bytes,
    )
    return stub(request, timeout=20)


def test_our_predict_their_server(official, model):
    """A generic stub with our messages gets what the model gives, strings and numbers."""
    request = serving.PredictRequest("model", INPUTS, signature_name="serving_default")
    response = call(official, request)

    assert response.outputs.keys() == expected(model).keys()
    assert all(same(response.outputs[name], array) for name, array in expected(model).items())
    assert (response.model, response.version) == ("model", 7)
    filtered = serving.PredictRequest("model", INPUTS, output_filter=["y"])
    assert list(call(official, filtered).outputs) == ["y"]
    with pytest.raises(grpc.RpcError, match="Servable not found"):
        call(official, serving.PredictRequest("other", INPUTS))


def test_our_examples_their_server(official):
    """Examples with and without a context reach the model, and its answers us."""
    examples = [{"x": 0.25, "tag": "a"}, {"x": 0.75}]
    response = call(official, serving.ClassifyRequest("model", examples))
    assert response.labels.tolist() == [[b"a", b"other"], [b"", b"other"]]
    assert response.scores.tolist() == [[0.25, 0.75], [0.75, 0.25]]

    shared = call(official, serving.ClassifyRequest("model", EXAMPLES, context=CONTEXT))
    assert shared.labels.tolist() == [[b"all", b"other"], [b"own", b"other"]]
    assert call(official, serving.RegressRequest("model", EXAMPLES)).values.tolist() == [
        3.125,
        3.375,
    ]
    tasks = [
        serving.InferenceTask("model", serving.REGRESS, version=3),
        serving.InferenceTask("model", serving.CLASSIFY, signature_name="s"),
    ]
    both = call(official, serving.MultiInferenceRequest(tasks, EXAMPLES, context=CONTEXT)).results
    assert both[0].values.tolist() == [3.125, 3.375]
    assert both[0].version == 3
    assert both[1].labels.tolist() == shared.labels.tolist()
    assert both[1].signature_name == "s"


def test_their_stub_our_server(tf, apis, model):
    """Serving's own stub calls a server that is made of our messages."""

    def predict(request, context):
        outputs = model.predict(**request.inputs)
        return serving.PredictResponse(outputs, model=request.model, version=7)

    def classify(request, context):
        found = model.classify(request.serialized())
        return serving.ClassifyResponse(found["classes"], found["scores"], model=request.model)

    def regress(request, context):
        return serving.RegressResponse(model.regress(request.serialized()), model=request.model)

    answers = {"Predict": predict, "Classify": classify, "Regress": regress}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=serving.METHODS[name].request.from_bytes,
            response_serializer=serving.METHODS[name].response.to_bytes,
        )
        for name, answer in answers.items()
    }
    server = grpc.server(futures.ThreadPoolExecutor(2))
    service = "tensorflow.serving.PredictionService"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = apis.service.PredictionServiceStub(channel)
            request = apis.predict.PredictRequest()
            request.model_spec.name = "model"
            for name, array in INPUTS.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
            answer = stub.Predict(request, timeout=20)
            assert answer.model_spec.version.value == 7
            for name, array in expected(model).items():
                assert same(tf.make_ndarray(answer.outputs[name]), array)

            request = apis.classification.ClassificationRequest()
            chosen = request.input.example_list_with_context
            chosen.context.features.feature["tag"].bytes_list.value.append(b"all")
            for value in (0.25, 0.75):
                feature = chosen.examples.add().features.feature["x"]
                feature.float_list.value.append(value)
            found = stub.Classify(request, timeout=20).result.classifications
            assert [[(c.label, c.score) for c in row.classes] for row in found] == [
                [("all", 0.25), ("other", 0.75)],
                [("all", 0.75), ("other", 0.25)],
            ]
            request = apis.regression.RegressionRequest()
            for value in (1.0, -6.0):
                example = request.input.example_list.examples.add()
                example.features.feature["x"].float_list.value.append(value)
            values = stub.Regress(request, timeout=20).result.regressions
            assert [one.value for one in values] == [3.5, 0.0]
    finally:
        server.stop(None).wait()


# REST


DTYPES = {"x": np.float32, "name": object}


class Rest:
    """The documented rules, on a TensorFlow model."""

    def __init__(self, tf, model):
        self.tf, self.model = tf, model

    def answer(self, path, body):
        found = re.fullmatch(r"/v1/models/model(?:/versions/7|/labels/stable)?:(\w+)", path)
        if not found:
            return 404, {"error": f"Servable not found for request: {path}"}
        try:
            return 200, getattr(self, found[1])(json.loads(body))
        except (KeyError, TypeError, ValueError) as error:
            return 400, {"error": f"JSON Parse error: {error}"}

    @staticmethod
    def decode(node):
        if isinstance(node, list):
            return [Rest.decode(element) for element in node]
        if isinstance(node, dict):
            return base64.b64decode(node["b64"], validate=True)
        return node.encode() if isinstance(node, str) else node

    def predict(self, body):
        if ("instances" in body) == ("inputs" in body):
            raise ValueError("expecting one of 'inputs' or 'instances'")
        columns = body.get("inputs") or {
            name: [row[name] for row in body["instances"]] for name in DTYPES
        }
        tensors = {
            name: np.array(self.decode(columns[name]), dtype) for name, dtype in DTYPES.items()
        }
        outputs = {}
        for name, tensor in self.model.predict(**tensors).items():
            nested = tensor.numpy().tolist()
            if name.endswith("_bytes"):
                nested = [{"b64": base64.b64encode(value).decode()} for value in nested]
            outputs[name] = nested
        if "inputs" in body:
            return {"outputs": outputs}
        rows = zip(*outputs.values(), strict=True)
        return {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}

    def examples(self, body):
        if not body["examples"]:
            raise ValueError("'examples' value is an empty array")
        records = []
        for row in body["examples"]:
            example = self.tf.train.Example()
            for name, value in {**body.get("context", {}), **row}.items():
                feature = example.features.feature[name]
                for one in self.decode(value if isinstance(value, list) else [value]):
                    kind = {bytes: "bytes_list", float: "float_list"}.get(type(one), "int64_list")
                    getattr(feature, kind).value.append(one)
            records.append(example.SerializeToString())
        return self.tf.constant(records)

    def classify(self, body):
        found = self.model.classify(self.examples(body))
        pairs = zip(found["classes"].numpy(), found["scores"].numpy().tolist(), strict=True)
        return {
            "results": [
                [[label.decode(), score] for label, score in zip(*row, strict=True)]
                for row in pairs
            ]
        }

    def regress(self, body):
        return {"results": self.model.regress(self.examples(body)).numpy().tolist()}


@pytest.fixture(scope="module")
def post(tf, model):
    """Sends a request to an HTTP server on loopback; gives the status and the body."""
    rest = Rest(tf, model)

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = rest.answer(self.path, body)
            data = json.dumps(answer, indent=4).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def send(request):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.request("POST", request.path, request.to_json())
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    yield send
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("version", [{}, {"version": 7}, {"version_label": "stable"}])
def test_rest_predict(post, model, rows, version):
    """By rows and by columns, of any version: what the model gives, to the bit."""
    request = serving.PredictRequest("model", INPUTS, rows=rows, **version)
    status, body = post(request)
    kinds = {name: array.dtype for name, array in expected(model).items()}
    response = serving.PredictResponse.from_json(body, dtypes=kinds)

    assert status == 200
    assert response.rows == rows
    assert all(same(response.outputs[name], array) for name, array in expected(model).items())


def test_rest_examples(post):
    """Examples with a context, to classify and to regress."""
    _, body = post(serving.ClassifyRequest("model", EXAMPLES, context=CONTEXT))
    classes = serving.ClassifyResponse.from_json(body)
    assert classes.labels.tolist() == [[b"all", b"other"], [b"own", b"other"]]
    assert classes.scores.tolist() == [[0.25, 0.75], [0.75, 0.25]]
    _, body = post(serving.RegressRequest("model", EXAMPLES, version=7))
    assert serving.RegressResponse.from_json(body).values.tolist() == [3.125, 3.375]


def test_rest_errors(post):
    """An error of the server is raised with its words, whatever the status."""
    status, body = post(serving.PredictRequest("half", INPUTS))
    assert status == 404
    with pytest.raises(ferry.FerryError, match="Servable not found"):
        serving.PredictResponse.from_json(body)
    status, body = post(serving.PredictRequest("model", {"x": [[1.0]]}, rows=True))
    assert status == 400
    with pytest.raises(ferry.FerryError, match="JSON Parse error"):
        serving.PredictResponse.from_json(body)
