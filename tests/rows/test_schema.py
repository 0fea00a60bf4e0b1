"""What a schema is: a mapping of features that an Example can hold, made of what users give."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from rows.schemas import schemas

from tensorferry.errors import FerryError, FormatError, UnsupportedError
from tensorferry.rows.schema import Feature, Schema, UnknownFeatureError, as_schema


@given(schemas())
def test_is_a_mapping(schema):
    """A schema is a mapping in the order of names, equal and hashed by what it holds."""
    again = Schema(reversed(schema.features))

    assert list(schema) == sorted(schema) == [feature.name for feature in schema.features]
    assert all(name in schema and schema[name].name == name for name in schema)
    assert again == schema
    assert hash(again) == hash(schema)
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert schema.select(schema) == schema


def test_select():
    """A selection holds what was asked for; a wrong name is told with near ones."""
    schema = as_schema({"tokens": "int64", "token_count": "int64", "image": "string"})

    assert list(schema.select(["tokens", "image"])) == ["image", "tokens"]
    assert list(schema.select("image")) == ["image"]
    assert schema.get("nothing") is None
    with pytest.raises(KeyError, match=r"'tokns'\nhint: did you mean 'tokens'") as caught:
        schema.select(["tokns"])
    assert isinstance(caught.value, FerryError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), UnknownFeatureError)
    with pytest.raises(UnknownFeatureError, match="there are 'image', 'token_count', 'tokens'"):
        schema["zzz"]


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"kind": "int32"}, "kind is 'int32', expected 'bytes', 'float32', 'int64'"),
        ({"kind": ["int64"]}, "kind is"),
        ({"dtype": "int32"}, "dtype is 'int32', expected 'int64'"),
        ({"encoding": "tensor"}, "kind is 'int64', expected 'bytes'"),
        ({"kind": "bytes", "encoding": "tensor", "dtype": "int3"}, "dtype is 'int3'"),
        ({"encoding": "zip"}, "encoding is 'zip'"),
        ({"optional": 1}, "optional is 1, expected False, True"),
        ({"shape": (-1,)}, "shape is"),
        ({"shape": (2.0,)}, "shape is"),
        ({"shape": (True,)}, "shape is"),
        ({"shape": 3}, "shape is 3"),
        ({"shape": "3"}, "shape is '3'"),
        ({"shape": (2**40, 2**40)}, "shape is"),
        ({"shape": (3, None)}, "None in front only"),
        ({"shape": (None, 0)}, "any number of rows"),
        ({"name": 3}, "name is 3"),
        ({"name": "\ud800"}, "half a character"),
        ({"default": 1.5}, "default is 1.5"),
        ({"default": 2**63}, "more than 64 bits"),
        ({"default": "x"}, "default is 'x'"),
        ({"default": [1, 2]}, "expected \\(\\)"),
        ({"default": [[1], 2], "shape": (2,)}, "default is"),
        ({"default": 1, "shape": (None,)}, "fixed shape"),
        ({"default": 1, "sequence": True}, "fixed shape"),
        ({"default": 1e300, "kind": "float32", "dtype": "float32"}, "more than a float32 holds"),
        ({"default": 1, "kind": "bytes", "dtype": "string"}, "expected bytes"),
    ],
)
def test_impossible_features(parts, match):
    """A feature that no Example can hold is refused, and told why."""
    given = {"name": "x", "kind": "int64", "shape": (), "dtype": "int64", **parts}

    with pytest.raises(FormatError, match=match):
        Feature(**given)


def test_defaults():
    """A default is kept in plain Python values, and makes its feature optional."""
    array = np.array([[1, 2]], np.int32)
    feature = Feature("x", "int64", (1, 2), "int64", default=array)

    assert feature.default == ((1, 2),)
    assert feature.optional
    assert Feature("x", "bytes", (), "string", default="é").default == "é".encode()
    assert Feature("x", "float32", (3,), "float32", default=1).default == 1.0
    assert Feature("x", "float32", (), "float32", default=math.nan) == Feature(
        "x", "float32", (), "float32", default=np.float32("nan")
    )


def test_names_are_unique():
    """A name cannot mean two features, even in a SequenceExample's two parts."""
    feature = Feature("x", "int64", (), "int64")

    with pytest.raises(FormatError, match="'x' is there twice"):
        Schema((feature, Feature("x", "int64", (), "int64", sequence=True)))


# What users give


def test_as_schema():
    """Dtypes, pairs and features mean what they say; dtypes Examples lack mean tensors."""
    feature = Feature("own", "int64", (2,), "int64", optional=True)
    schema = as_schema(
        {
            "a": "int64",
            "b": np.float32,
            "c": (np.dtype("int64"), (2, 3)),
            "d": ("string", [None]),
            "e": ("float64", (-1, 4)),
            "f": bytes,
            "g": ("uint8", 3),
            "own": feature,
        }
    )

    assert as_schema(schema) is schema
    assert schema.features == (
        Feature("a", "int64", (), "int64"),
        Feature("b", "float32", (), "float32"),
        Feature("c", "int64", (2, 3), "int64"),
        Feature("d", "bytes", (None,), "string"),
        Feature("e", "bytes", (None, 4), "float64", "tensor"),
        Feature("f", "bytes", (), "string"),
        Feature("g", "bytes", (3,), "uint8", "tensor"),
        feature,
    )


def test_as_schema_refuses():
    """What describes no features is refused."""
    feature = Feature("x", "int64", (), "int64")

    with pytest.raises(FormatError, match="under the name 'y'"):
        as_schema({"y": feature})
    with pytest.raises(UnsupportedError, match="tensor 'y'"):
        as_schema({"y": "datetime64[s]"})
    with pytest.raises(TypeError, match="not int"):
        as_schema(3)
