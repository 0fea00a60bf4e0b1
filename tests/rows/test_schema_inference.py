"""The schema that follows from a survey of the rows."""

from __future__ import annotations

import pytest

from tensorferry.errors import FormatError
from tensorferry.rows.schema import Feature, FeatureStatistics, Schema, infer


def statistics(name="x", kind="int64", rows=3, lists=3, shortest=1, longest=1, **options):
    """What a survey says of a feature of three single values, unless told otherwise."""
    parts = {"sequence": False, "mixed": False, **options}
    return FeatureStatistics(
        name=name, kind=kind, rows=rows, lists=lists, shortest=shortest, longest=longest, **parts
    )


@pytest.mark.parametrize(
    ("found", "shape", "optional"),
    [
        (statistics(), (), False),
        (statistics(shortest=16, longest=16), (16,), False),
        (statistics(shortest=0, longest=3), (None,), False),
        (statistics(shortest=1, longest=2), (None,), False),
        (statistics(shortest=0, longest=0), (None,), False),
        (statistics(rows=2, lists=2), (), True),
        (statistics(rows=2, lists=2, shortest=4, longest=4), (4,), True),
    ],
)
def test_infer(found, shape, optional):
    """Lists of one length have a fixed shape; a feature that some rows lack is optional."""
    assert infer([found], 3) == Schema((Feature("x", "int64", shape, "int64", optional=optional),))


def test_infer_kinds():
    """Sequences have the shape of a step, tensors their own; what was never there is left out."""
    found = [
        statistics("a", "bytes"),
        statistics("b", "bytes", shortest=1, longest=2),
        statistics("c", None, shortest=0, longest=0),
        statistics("d", "float32", sequence=True, lists=7, shortest=2, longest=2),
    ]

    schema = infer(found, 3, {"a": ("float64", (3, 4)), "b": ("int32", ())})

    assert schema == Schema(
        (
            Feature("a", "bytes", (3, 4), "float64", "tensor"),
            Feature("b", "bytes", (None,), "string"),
            Feature("d", "float32", (2,), "float32", sequence=True),
        )
    )


def test_infer_mixed():
    """A feature of several kinds is refused with its name and the ways out."""
    with pytest.raises(FormatError, match=r"'x' .* several kinds(?s:.*)schema=.*raw=True"):
        infer([statistics(mixed=True)], 3)
