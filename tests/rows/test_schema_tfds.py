"""The features of TensorFlow Datasets as a schema."""

from __future__ import annotations

import json

import pytest
from conftest import CORPUS
from rows.schemas import tfds_dict, tfds_node, tfds_sequence, tfds_tensor

from tensorferry.errors import LimitError
from tensorferry.rows.schema import Feature, as_schema, find_beside, from_tfds

BRIDGE = CORPUS / "tfds/robotics/dummy_data/bridge/1.0.0"

TFDS = tfds_dict(
    flag=tfds_tensor([], "bool"),
    wide=tfds_tensor([2, 3], "float64"),
    rows=tfds_tensor([-1, 3], "int32"),
    middle=tfds_tensor([2, -1], "float32"),
    packed=tfds_tensor([2, 3], "float32", encoding="zlib"),
    open=tfds_tensor([-1, -1], "float32", encoding="bytes"),
    maybe=tfds_tensor([], "int64", optional=True),
    image=tfds_node("image", {"shape": {"dimensions": ["28", "28", "1"]}, "dtype": "uint8"}),
    label=tfds_node("classLabel", {"numClasses": "10"}),
    text=tfds_node("text", {}),
    box=tfds_node("boundingBox", {"shape": {"dimensions": ["4"]}, "dtype": "float32"}),
    film=tfds_node("video", {"shape": {"dimensions": ["-1", "2", "2", "3"]}, "dtype": "uint8"}),
    clip=tfds_node("video", {"shape": {"dimensions": ["2", "2", "2", "3"]}, "dtype": "uint8"}),
    sound=tfds_node("audio", {"shape": {"dimensions": ["-1"]}, "dtype": "int64"}),
    file=tfds_node("audio", {"shape": {"dimensions": ["-1"]}, "lazyDecode": True}),
    said=tfds_node("translation", {"languages": ["en", "fr"]}),
    told=tfds_node("translation", {"variableLanguagesPerExample": True}),
    three=tfds_sequence(tfds_tensor([], "float32"), 3),
    steps=tfds_sequence(
        tfds_dict(
            reward=tfds_tensor([], "float32"),
            words=tfds_sequence(tfds_node("text", {})),
            deep=tfds_sequence(tfds_sequence(tfds_tensor([2], "uint8"))),
        )
    ),
    own=tfds_node("jsonFeature", {"json": "{}"}),
    complex=tfds_tensor([], "complex64"),
)


def test_tfds():
    """Each leaf has the key, the kind and the shape that TFDS 4.9 writes for it."""
    schema = from_tfds(json.dumps(TFDS))
    ours = {name: (feature.kind, feature.shape) for name, feature in schema.items()}

    assert ours == {
        "flag": ("int64", ()),
        "wide": ("float32", (2, 3)),
        "rows": ("int64", (None, 3)),
        "middle": ("float32", (None,)),
        "packed": ("bytes", ()),
        "open/shape": ("int64", (2,)),
        "open/value": ("bytes", ()),
        "maybe": ("int64", ()),
        "image": ("bytes", ()),
        "label": ("int64", ()),
        "text": ("bytes", ()),
        "box": ("float32", (4,)),
        "film": ("bytes", (None,)),
        "clip": ("bytes", (2,)),
        "sound": ("int64", (None,)),
        "file": ("bytes", ()),
        "said/en": ("bytes", ()),
        "said/fr": ("bytes", ()),
        "told/language": ("bytes", (None,)),
        "told/translation": ("bytes", (None,)),
        "three": ("float32", (3,)),
        "steps/reward": ("float32", (None,)),
        "steps/words/ragged_flat_values": ("bytes", (None,)),
        "steps/words/ragged_row_lengths_0": ("int64", (None,)),
        "steps/deep/ragged_flat_values": ("int64", (None, 2)),
        "steps/deep/ragged_row_lengths_0": ("int64", (None,)),
        "steps/deep/ragged_row_lengths_1": ("int64", (None,)),
    }
    assert [name for name in schema if schema[name].optional] == ["maybe"]
    assert sorted(note.split()[0] for note in schema.notes) == ["'complex'", "'middle'", "'own'"]


def test_tfds_of_old():
    """The older form, with "type" and "content", is understood too."""
    place = "tensorflow_datasets.core.features"
    tree = {
        "type": f"{place}.features_dict.FeaturesDict",
        "content": {
            "image": {
                "type": f"{place}.image_feature.Image",
                "content": {"shape": [None, None, 3], "dtype": "uint8", "encoding_format": "png"},
            },
            "label": {
                "type": f"{place}.class_label_feature.ClassLabel",
                "content": {"num_classes": 10},
            },
            "tokens": {
                "type": f"{place}.sequence_feature.Sequence",
                "content": {
                    "feature": {
                        "type": f"{place}.tensor_feature.Tensor",
                        "content": {"shape": [], "dtype": "int32"},
                    },
                    "length": None,
                },
            },
            "features": {"type": f"{place}.text_feature.Text", "content": {}},
        },
    }

    assert as_schema(tree).features == (
        Feature("features", "bytes", (), "string"),
        Feature("image", "bytes", (), "string"),
        Feature("label", "int64", (), "int64"),
        Feature("tokens", "int64", (None,), "int64"),
    )


def test_tfds_depth():
    """Features that nest without end are refused."""
    tree = tfds_tensor([], "int64")
    for _ in range(150):
        tree = tfds_sequence(tree)

    with pytest.raises(LimitError, match="deeper than 100"):
        as_schema(tree)


@pytest.mark.skipif(not BRIDGE.exists(), reason="no corpus")
def test_tfds_of_corpus(tf):
    """A dataset's features.json names the keys, kinds and lengths of its own records."""
    (records,) = BRIDGE.glob("*.tfrecord*")
    schema = find_beside(records)

    assert schema.notes == ()
    for record in tf.data.TFRecordDataset(str(records)):
        message = tf.train.Example.FromString(record.numpy())
        assert sorted(message.features.feature) == list(schema)
        parsed = tf.io.parse_single_example(record, eval(schema.to_tf_spec(), {"tf": tf}))
        assert parsed["steps/action/world_vector"].shape[1:] == (3,)
