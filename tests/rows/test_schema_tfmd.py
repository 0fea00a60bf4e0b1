"""Schemas of TensorFlow Metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from rows.schemas import schemas

from tensorferry.errors import FormatError, LimitError, TruncatedError
from tensorferry.rows.schema import Feature, from_tfmd


@given(schemas())
def test_tfmd_roundtrip(schema):
    """A TFMD schema gives back every feature, in ASCII."""
    text = schema.to_tfmd()

    assert text.isascii()
    assert from_tfmd(text) == from_tfmd(text.encode()) == schema


TFMD = r"""
# As TensorFlow Data Validation and its users write them.
feature {
  name: "trip" "_id"  type: INT
  int_domain { min: -1 max: 0x10 is_categorical: true }
  presence { min_fraction: 1.0 min_count: 1 }
  shape { }
}
feature: <
  name: 'caf\303\251' type: FLOAT value_count < min: 1 max: 1 >; presence { min_fraction: 1 }
>
feature {
  name: "emb", type: FLOAT, presence { min_fraction: 1.0 }, shape { dim: [{size: 2}, {size: 3}] }
}
feature { name: "one" type: BYTES presence { min_fraction: 0.5 } shape { dim { size: 1 } } }
feature { name: "pair" type: 2 value_count { min: 2 max: 2 } annotation { tag: ["own", "mine"] } }
feature { name: "tags" type: BYTES value_count { min: 1 } string_domain { value: ["a", "b"] } }
feature { name: "old" type: INT presence { min_fraction: 1 } shape {} lifecycle_stage: DEPRECATED }
feature { name: "what" type: TYPE_UNKNOWN }
feature { name: "person" type: STRUCT struct_domain { feature { name: "age" type: INT } } }
feature {
  name: "##SEQUENCE##"
  type: STRUCT
  struct_domain {
    feature { name: "word" type: BYTES value_count { min: 0 max: 2 } }
    feature {
      name: "point"
      type: FLOAT
      value_counts { value_count { min: 0 max: 9 } value_count { min: 2 max: 2 } }
      presence { min_fraction: 1.0 }
    }
  }
}
sparse_feature { name: "s" index_feature { name: "i" } value_feature { name: "v" } }
tensor_representation_group {
  key: ""
  value { tensor_representation { key: "x" value { dense_tensor { column_name: "emb" } } } }
}
annotation { extra_metadata { [type.googleapis.com/a.B] { x: -inf y: 1.5e3f z: .5 } } }
"""


def test_tfmd():
    """Types, presence, shapes and counts of a TFMD schema become a schema; the rest is noted."""
    schema = from_tfmd(TFMD)

    assert schema.features == (
        Feature("café", "float32", (), "float32"),
        Feature("emb", "float32", (2, 3), "float32"),
        Feature("old", "int64", (), "int64", optional=True),
        Feature("one", "bytes", (1,), "string", optional=True),
        Feature("pair", "int64", (2,), "int64", optional=True),
        Feature("point", "float32", (2,), "float32", sequence=True),
        Feature("tags", "bytes", (None,), "string", optional=True),
        Feature("trip_id", "int64", (), "int64"),
        Feature("word", "bytes", (None,), "string", sequence=True, optional=True),
    )
    assert [note.split()[0] for note in schema.notes] == ["'what'", "'person'"]


def test_names_that_are_there_twice():
    """The first feature of a name is taken, as by tfx-bsl, and a note says so."""
    schema = from_tfmd(
        'feature { name: "a" type: INT } feature { name: "b" type: BYTES } '
        'feature { name: "a" type: FLOAT }'
    )
    assert [(feature.name, feature.kind) for feature in schema.features] == [
        ("a", "int64"),
        ("b", "bytes"),
    ]
    assert schema.notes == ("'a' is there more than once; the first is taken",)


@pytest.mark.parametrize(
    ("text", "error", "offset"),
    [
        ("feature {", TruncatedError, 9),
        ("feature { name: ", TruncatedError, 16),
        ('feature { name: "x }', FormatError, 16),
        ("feature }", FormatError, 8),
        ("feature { name x }", FormatError, 15),
        ('feature { name: "\\q" }', FormatError, 17),
        ('feature { name: "\\777" }', FormatError, 17),
        ('feature { name: "\\ud800" }', FormatError, 17),
        ("feature { size: 09 }", FormatError, 16),
        ("feature { size: 1x }", FormatError, 16),
        ("feature { size: - x }", FormatError, 18),
        ("feature { size: [1 2] }", FormatError, 19),
        ("feature { size: [1,] }", FormatError, 19),
        (f"feature {{ size: {'9' * 1000} }}", FormatError, 16),
        ("feature { type: INT }", FormatError, 8),
        ("feature: 3", FormatError, 0),
        ('feature { name: "x" type { min: 1 } }', FormatError, 8),
        ('feature { name: "x" type: INT shape { dim { size: "3" } } }', FormatError, 42),
        ('feature { name: "\\377" type: INT }', FormatError, 8),
        (
            'feature { name: "x" type: INT annotation { tag: "tensorferry.dtype=3" } }',
            FormatError,
            8,
        ),
        (
            'feature { name: "x" type: INT shape { dim { size: 99999999999999999999 } } }',
            FormatError,
            8,
        ),
        ("a {" * 200, LimitError, 302),
        ("a: [{" * 200, LimitError, 504),
    ],
)
def test_tfmd_refuses(text, error, offset):
    """Text that is no TFMD schema is refused, with the byte where that shows."""
    with pytest.raises(error) as caught:
        from_tfmd(text)

    assert type(caught.value) is error
    assert caught.value.offset == offset
