"""GetModelMetadata: signatures as Serving's own classes have them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from serving_specs import fill, names_same, specs

import tensorferry as ferry
from tensorferry import serving


@given(specs(), st.lists(st.text(max_size=8), max_size=2))
def test_request_both_ways(apis, spec, fields):
    """A request names a model and what to tell of it."""
    request = serving.GetModelMetadataRequest(metadata_field=fields, **spec)
    proto = apis.metadata.GetModelMetadataRequest.FromString(request.to_bytes())
    official = apis.metadata.GetModelMetadataRequest(metadata_field=fields)
    fill(official.model_spec, spec)
    back = serving.GetModelMetadataRequest.from_bytes(official.SerializeToString())

    assert proto.model_spec == official.model_spec
    assert list(proto.metadata_field) == fields
    assert names_same(back, spec)
    assert back.metadata_field == tuple(fields)


def test_signatures_are_read(tf, apis, tmp_path):
    """The signatures of a model that TensorFlow saved, with names, dtypes and shapes."""

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        def serve(self, x):
            return {"y": x + 1, "n": tf.size(x)}

    model = Model()
    tf.saved_model.save(model, str(tmp_path), signatures={"serving_default": model.serve})
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(
        (tmp_path / "saved_model.pb").read_bytes()
    ).meta_graphs[0]
    held = apis.metadata.SignatureDefMap()
    for name, signature in graph.signature_def.items():
        held.signature_def[name].CopyFrom(signature)
    proto = apis.metadata.GetModelMetadataResponse()
    proto.model_spec.name = "m"
    proto.model_spec.version.value = 1
    proto.metadata["signature_def"].Pack(held)
    response = serving.GetModelMetadataResponse.from_bytes(proto.SerializeToString())
    serve = response.signatures["serving_default"]

    assert (response.model, response.version) == ("m", 1)
    assert str(serve.inputs["x"]) == "float32[?, 3]"
    assert {name: str(spec) for name, spec in serve.outputs.items()} == {
        "n": "int32[]",
        "y": "float32[?, 3]",
    }
    assert serve.method == "tensorflow/serving/predict"


def test_other_metadata(apis):
    """Metadata of another name is passed over; of another type, it is refused."""
    proto = apis.metadata.GetModelMetadataResponse()
    proto.metadata["other"].type_url = "type.googleapis.com/some.Message"
    assert not serving.GetModelMetadataResponse.from_bytes(proto.SerializeToString()).signatures
    proto.metadata["signature_def"].type_url = "type.googleapis.com/some.Message"
    with pytest.raises(ferry.FormatError, match=r"some\.Message"):
        serving.GetModelMetadataResponse.from_bytes(proto.SerializeToString())
