"""GetModelStatus beside Serving's own classes, both ways, and in REST."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from serving_specs import fill, names_same, specs

import tensorferry as ferry
from tensorferry import serving
from tensorferry.serving.status import CODES

STATES = ("UNKNOWN", "START", "LOADING", "AVAILABLE", "UNLOADING", "END")
STATUSES = st.builds(
    serving.ModelVersionStatus,
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(STATES),
    st.sampled_from(CODES),
    st.text(max_size=20),
)


@given(specs())
def test_request_both_ways(apis, spec):
    """A request names a model."""
    request = serving.GetModelStatusRequest(**spec)
    proto = apis.status.GetModelStatusRequest.FromString(request.to_bytes())
    official = apis.status.GetModelStatusRequest()
    fill(official.model_spec, spec)

    assert proto.model_spec == official.model_spec
    assert names_same(serving.GetModelStatusRequest.from_bytes(official.SerializeToString()), spec)


@given(st.lists(STATUSES, max_size=3))
def test_response_both_ways(apis, versions):
    """States and codes have the numbers of Serving's own classes; JSON is protobuf's."""
    from google.protobuf import json_format

    response = serving.GetModelStatusResponse(tuple(versions))
    proto = apis.status.GetModelStatusResponse.FromString(response.to_bytes())
    state = apis.status.ModelVersionStatus.State
    code = type(proto.model_version_status.add().status).DESCRIPTOR.fields_by_name["error_code"]
    del proto.model_version_status[-1]

    for found, version in zip(proto.model_version_status, versions, strict=True):
        assert found.version == version.version
        assert state.Name(found.state) == version.state
        assert code.enum_type.values_by_number[found.status.error_code].name == version.error_code
        assert found.status.error_message == version.error_message
    assert serving.GetModelStatusResponse.from_bytes(proto.SerializeToString()) == response
    text = json_format.MessageToJson(proto, preserving_proto_field_name=True)
    if versions:
        assert serving.GetModelStatusResponse.from_json(text) == response
    assert json_format.Parse(response.to_json(), apis.status.GetModelStatusResponse()) == proto


def test_documented_answer():
    """The answer of the documentation."""
    body = """{
 "model_version_status": [
  {
   "version": "123",
   "state": "AVAILABLE",
   "status": {
    "error_code": "OK",
    "error_message": ""
   }
  }
 ]
}"""
    response = serving.GetModelStatusResponse.from_json(body)

    assert response.versions == (serving.ModelVersionStatus(123, "AVAILABLE"),)
    assert json.loads(response.to_json()) == json.loads(body)


@pytest.mark.parametrize(
    "version",
    [
        3,
        {"version": "x"},
        {"version": 1.5},
        {"version": "9" * 50},
        {"version": "1", "state": "READY"},
        {"version": "1", "state": 30},
        {"version": "1", "status": []},
        {"version": "1", "status": {"error_code": "BAD"}},
        {"version": "1", "status": {"error_message": 7}},
    ],
)
def test_wrong_answers(version):
    """Anything else is refused."""
    with pytest.raises(ferry.FormatError):
        serving.GetModelStatusResponse.from_json(json.dumps({"model_version_status": [version]}))


def test_unknown_names_and_numbers():
    """A state that Serving does not have is refused, by name and by number."""
    with pytest.raises(ferry.UnsupportedError, match="READY"):
        serving.GetModelStatusResponse([serving.ModelVersionStatus(1, "READY")]).to_bytes()
    with pytest.raises(ferry.FormatError, match="state 31"):
        serving.GetModelStatusResponse.from_bytes(b"\x0a\x02\x10\x1f")
