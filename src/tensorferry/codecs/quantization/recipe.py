"""Recipes: how an array is to be quantized, and how one was.

A `Spec` is what a user asks for, a `Recipe` what was done: with the values it restores an array. A
recipe is kept as JSON, of which everything is checked when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, cast

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.errors import FormatError, UnsupportedError

Array = np.ndarray[Any, np.dtype[Any]]

Kind = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"]
Scheme = Literal["cast", "symmetric", "affine"]

KINDS: tuple[Kind, ...] = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
)
SCHEMES: dict[Kind, tuple[Scheme, ...]] = {
    kind: ("symmetric", "affine") if kind in ("int8", "uint8") else ("cast",) for kind in KINDS
}
ORIGINALS = ("float64", "float32", "bfloat16", "float16")
"""The dtypes that can be quantized."""


@dataclass(frozen=True, slots=True)
class Spec:
    """How to quantize.

    Attributes:
        kind: The dtype of the values.
        scheme: "cast" for floats; "symmetric" (the default of int8) or "affine" (of uint8).
        axis: For integers: the axis along which each index has its own scale; None for one scale.
        max_error: The largest absolute error that an element may have.
        clip: Whether elements that the kind cannot represent become the nearest number it has.

    Raises:
        UnsupportedError: The attributes contradict each other.
    """

    kind: Kind
    scheme: Scheme | None = None
    axis: int | None = None
    max_error: float | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnsupportedError(
                f"kind is {self.kind!r}, expected one of {', '.join(map(repr, KINDS))}"
            )
        if self.scheme is None:
            scheme: Scheme = "affine" if self.kind == "uint8" else SCHEMES[self.kind][0]
            object.__setattr__(self, "scheme", scheme)
        if self.scheme not in SCHEMES[self.kind]:
            expected = " or ".join(map(repr, SCHEMES[self.kind]))
            raise UnsupportedError(f"scheme of {self.kind} is {self.scheme!r}, expected {expected}")
        if self.axis is not None and (not _is_int(self.axis) or self.scheme == "cast"):
            raise UnsupportedError(
                f"axis of {self.kind} is {self.axis!r}, expected "
                + ("none for a cast" if self.scheme == "cast" else "an integer or None")
            )
        bound = self.max_error
        if bound is not None and not (_is_number(bound) and 0 <= bound < math.inf):
            raise UnsupportedError(f"max_error is {bound!r}, expected a number from 0 on")
        if not isinstance(self.clip, bool):
            raise UnsupportedError(f"clip is {self.clip!r}, expected True or False")


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How an array was quantized, and so how to restore it.

    Attributes:
        kind: The dtype of the values.
        scheme: "cast", "symmetric" or "affine".
        dtype: The dtype of the original array.
        axis: The axis along which each index has its own scale; None if there is one scale.
        scale: For integers: the size of a step, 0-D or 1-D; None for casts.
        zero_point: For integers: the value that represents zero, shaped like `scale`; None for
            casts.
    """

    kind: Kind
    scheme: Scheme
    dtype: str
    axis: int | None = None
    scale: Array | None = None
    zero_point: Array | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes that the scales and zero points take."""
        return sum(part.nbytes for part in (self.scale, self.zero_point) if part is not None)

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain values for JSON, with every bit of the scales."""
        plain: dict[str, Any] = {"kind": self.kind, "scheme": self.scheme, "dtype": self.dtype}
        if self.scale is not None and self.zero_point is not None:
            plain["axis"] = self.axis
            plain["scale"] = self.scale.tolist()
            plain["zero_point"] = self.zero_point.tolist()
        return plain

    @classmethod
    def from_json(cls, plain: Any, *, shape: tuple[int, ...] | None = None) -> Recipe:
        """Makes a recipe of the dict that `to_json` gave. Everything in the dict is checked.

        Args:
            plain: The dict.
            shape: The shape of the values, if it is known; `dequantize` checks it again.

        Raises:
            FormatError: The dict is not a recipe, or does not fit the shape.
        """
        if not isinstance(plain, dict):
            raise FormatError(f"the recipe is of {type(plain).__name__}, expected a dict")
        kind = _choice(plain, "kind", KINDS)
        scheme = _choice(plain, "scheme", SCHEMES[cast(Kind, kind)])
        names = {"kind", "scheme", "dtype"}
        if scheme != "cast":
            names |= {"axis", "scale", "zero_point"}
        if plain.keys() != names:
            found, expected = sorted(map(str, plain)), sorted(names)
            raise FormatError(f"the recipe of a {scheme} has {found}, expected {expected}")
        dtype = _choice(plain, "dtype", ORIGINALS)
        recipe = cls(cast(Kind, kind), cast(Scheme, scheme), dtype)
        if scheme != "cast":
            axis = plain["axis"]
            if axis is not None and not (_is_int(axis) and axis >= 0):
                raise FormatError(f"the recipe's axis is {axis!r}, expected None or 0 and more")
            scale = _scales(plain["scale"], axis, work_dtype(dtype))
            zero_point = _zero_points(plain["zero_point"], axis, recipe)
            recipe = cls(recipe.kind, recipe.scheme, dtype, axis, scale, zero_point)
        if shape is not None:
            recipe.check(shape)
        return recipe

    def check(self, shape: tuple[int, ...]) -> None:
        """Checks that the axis and the number of scales fit the shape of the values.

        Raises:
            FormatError: They do not fit.
        """
        if self.scheme == "cast":
            return
        if self.axis is not None and self.axis >= len(shape):
            raise FormatError(f"the recipe's axis is {self.axis}, the values have shape {shape}")
        expected = () if self.axis is None else (shape[self.axis],)
        for name in ("scale", "zero_point"):
            part = getattr(self, name)
            if part is None or part.shape != expected:
                found = "missing" if part is None else f"of shape {part.shape}"
                raise FormatError(
                    f"the recipe's {name} is {found}, expected {expected} "
                    f"for values of shape {shape} and axis {self.axis}"
                )


def parse(spec: Spec | str | tuple[Any, ...] | Mapping[str, Any]) -> Spec:
    """Makes a `Spec` of what a user wrote.

    Args:
        spec: A kind, `(kind, max_error)`, a dict of the attributes of a Spec, or a Spec.

    Raises:
        UnsupportedError: `spec` is none of these.
    """
    if isinstance(spec, Spec):
        return spec
    if isinstance(spec, str):
        return Spec(cast(Kind, spec))
    if isinstance(spec, tuple) and len(spec) == 2:
        return Spec(spec[0], max_error=spec[1])
    if isinstance(spec, Mapping):
        names = {attribute.name for attribute in fields(Spec)}
        if "kind" in spec and spec.keys() <= names:
            return Spec(**spec)
    raise UnsupportedError(
        f"quantize is {spec!r}",
        hint='expected as in "int8", ("int8", 0.01) or {"kind": "int8", "axis": 0}',
    )


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name, which may be one of ml_dtypes."""
    return cast("np.dtype[Any]", dtypes.BY_NAME[name].numpy)


def work_dtype(name: str) -> np.dtype[Any]:
    """The dtype of the arithmetic."""
    return np.dtype(np.float64 if name == "float64" else np.float32)


def _bounds(kind: Kind, scheme: Scheme) -> tuple[int, int, int]:
    """The smallest and largest value of a kind, and the zero point of a symmetric scheme."""
    low, high = (-128, 127) if kind == "int8" else (0, 255)
    return (low + 1, high, (low + high + 1) // 2) if scheme == "symmetric" else (low, high, 0)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _choice(plain: dict[Any, Any], name: str, choices: tuple[str, ...]) -> str:
    value = plain.get(name)
    if not isinstance(value, str) or value not in choices:
        raise FormatError(
            f"the recipe's {name} is {value!r}, expected {' or '.join(map(repr, choices))}"
        )
    return value


def _listed(plain: Any, axis: int | None, name: str) -> list[Any]:
    """The numbers of an entry: one without an axis, a list of them with one."""
    if (axis is None) == isinstance(plain, list):
        expected = "a number" if axis is None else "a list"
        raise FormatError(
            f"the recipe's {name} is of {type(plain).__name__}, expected {expected} for axis {axis}"
        )
    return plain if isinstance(plain, list) else [plain]


def _scales(plain: Any, axis: int | None, work: np.dtype[Any]) -> Array:
    numbers = _listed(plain, axis, "scale")
    least, most = float(np.finfo(work).tiny), float(np.finfo(work).max)
    for number in numbers:
        if not (_is_number(number) and least <= number <= most):
            raise FormatError(
                f"the recipe's scale is {number!r}, expected numbers from {least:g} to {most:g}"
            )
    scale = np.array(numbers, work)
    if scale.tolist() != numbers:
        raise FormatError(f"the recipe's scale has more digits than {work} can hold")
    return scale if axis is not None else scale.reshape(())


def _zero_points(plain: Any, axis: int | None, recipe: Recipe) -> Array:
    numbers = _listed(plain, axis, "zero_point")
    low, high, middle = _bounds(recipe.kind, recipe.scheme)
    if recipe.scheme == "symmetric":
        low = high = middle
    for number in numbers:
        if not (_is_int(number) and low <= number <= high):
            raise FormatError(
                f"the recipe's zero_point is {number!r}, expected integers from {low} to {high}"
            )
    zero_point = np.array(numbers, numpy_dtype(recipe.kind))
    return zero_point if axis is not None else zero_point.reshape(())
