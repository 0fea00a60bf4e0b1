"""Which model a request is for: paths of the REST API and names of gRPC's methods."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, strategies as st

import tensorferry as ferry
from tensorferry import serving


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        (serving.PredictRequest("half_plus_two", {}), "/v1/models/half_plus_two:predict"),
        (serving.PredictRequest("m", {}, version=3), "/v1/models/m/versions/3:predict"),
        (
            serving.ClassifyRequest("m", [], version_label="a b"),
            "/v1/models/m/labels/a%20b:classify",
        ),
        (serving.RegressRequest("m", [], version=0), "/v1/models/m/versions/0:regress"),
        (serving.GetModelStatusRequest("m"), "/v1/models/m"),
        (serving.GetModelStatusRequest("m", version=7), "/v1/models/m/versions/7"),
        (serving.GetModelMetadataRequest("m"), "/v1/models/m/metadata"),
    ],
)
def test_paths(request_, path):
    """The documented paths, with a version, a label or neither."""
    assert request_.path == path


@given(
    st.text(min_size=1, max_size=10),
    st.one_of(st.none(), st.integers(0, 2**63 - 1), st.text(min_size=1, max_size=10)),
)
def test_path_roundtrip(model, version):
    """A path gives back the model, and its version or label."""
    assume("/" not in f"{model}{version}" and ":" not in f"{model}{version}")
    key = "version_label" if isinstance(version, str) else "version"
    request = serving.PredictRequest(model, {"x": [1]}, **{key: version})
    back = serving.PredictRequest.from_json(request.to_json(), path=request.path)

    assert (back.model, getattr(back, key)) == (model, version)
    assert request.path.isascii()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/m",
        "/v1/models/m:classify",
        "/v1/models/:predict",
        "/v1/models/m/versions/x:predict",
        "/v1/models/m/versions/1/labels/a:predict",
        "/v2/models/m:predict",
        "/v1/models/m:predict/",
        "v1/models/m:predict",
        "/v1/models/%ff:predict",
        "/v1/models/m/versions/9223372036854775808:predict",
        "/v1/models/m/versions/" + "9" * 5000 + ":predict",
    ],
)
def test_wrong_paths(path):
    """Any other path is refused."""
    with pytest.raises(ferry.FormatError):
        serving.PredictRequest.from_json(b'{"inputs": [1]}', path=path)


@pytest.mark.parametrize("model", ["", "a/b", "a:b", "\ud800"])
def test_names_without_a_path(model):
    """A name that a path has no place for is refused."""
    with pytest.raises(ferry.UnsupportedError, match="no place"):
        _ = serving.PredictRequest(model, {}).path


def test_methods_are_the_official_ones(apis):
    """Every method has the name and the messages that the service describes."""
    from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

    described = {}
    for module in (prediction_service_pb2, model_service_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                described[method.name] = f"/{service.full_name}/{method.name}"
    del described["HandleReloadConfigRequest"]

    assert {name: method.path for name, method in serving.METHODS.items()} == described
    assert all(method.request.method == method.path for method in serving.METHODS.values())
