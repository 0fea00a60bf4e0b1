"""Feature: one entry of a schema, checked when it is made.

The schema of a file is `tensorferry.rows.schema`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from tensorferry import dtypes, limits
from tensorferry.classes import dataclass
from tensorferry.codecs.quantization import Recipe
from tensorferry.errors import FerryError, FormatError, LimitError

Kind = Literal["bytes", "float32", "int64"]
Encoding = Literal["plain", "tensor"]
Shape = tuple[int | None, ...]

_KINDS, _ENCODINGS = get_args(Kind), get_args(Encoding)

# The dtype of a column that holds a list's values as they are.
DTYPES: dict[Kind, str] = {"bytes": "string", "float32": "float32", "int64": "int64"}
KINDS: dict[str, Kind] = {dtype: kind for kind, dtype in DTYPES.items()}

SIZE = 1 << 14
"""As so many bytes each feature in the file of a schema counts, as columns do."""

Part = TypeVar("Part")


def counted(parts: Iterable[Part]) -> Iterator[Part]:
    """What describes the features in the file of a schema, one after the other.

    Raises:
        LimitError: They are more than `limits.memory` justifies.
    """
    most = limits.memory // SIZE
    for number, part in enumerate(parts):
        if number == most:
            raise LimitError(
                f"a schema of more than {most} features",
                hint="raise tensorferry.limits.memory if the file is to be trusted",
            )
        yield part


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of the records.

    Attributes:
        name: The key in the Example.
        kind: The kind of list in the Example.
        shape: The shape of one row's value: () for a single value, (n,) or more for a fixed number,
            None in front for any number. With `sequence` the shape of one step; with the encoding
            "tensor" the shape of the tensor, of which any dimension may be open.
        dtype: The dtype of the column.
        encoding: "plain" for the list's values, "tensor" for one bytes value that is a serialized
            tensor.
        sequence: Whether it is one of a SequenceExample's feature lists.
        optional: Whether rows may lack it.
        default: The value of rows without the feature, for plain features of fixed shape: one value
            for all places, or as many as the shape has. A default makes a feature optional.
        quantized: How the serialized tensors, of `quantized.kind`, become values of `dtype`; None
            for tensors that are of that dtype.
    """

    name: str
    kind: Kind
    shape: Shape
    dtype: str
    encoding: Encoding = "plain"
    sequence: bool = False
    optional: bool = False
    default: Any = None
    quantized: Recipe | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_choice(self, "kind", _KINDS)
        _check_choice(self, "encoding", _ENCODINGS)
        if self.encoding == "plain":
            _check_choice(self, "dtype", (DTYPES[self.kind],))
        else:
            _check_choice(self, "kind", ("bytes",))
            _check_choice(self, "dtype", dtypes.BY_NAME)
        for part in ("sequence", "optional"):
            _check_choice(self, part, (False, True))
        object.__setattr__(self, "shape", _as_shape(self))
        if self.default is not None:
            object.__setattr__(self, "default", _as_default(self))
            object.__setattr__(self, "optional", True)
        if self.quantized is not None:
            _check_recipe(self, self.quantized)

    @property
    def stored(self) -> str:
        """The dtype of the values as the records hold them."""
        return self.dtype if self.quantized is None else self.quantized.kind

    @property
    def is_ragged(self) -> bool:
        """Whether each row has any number of values, in one list or in one quantized tensor."""
        if self.encoding == "plain":
            return self.shape[:1] == (None,)
        return self.quantized is not None and self.shape == (None,)

    # The default is compared by its text: NaN is unlike itself.
    def _key(self) -> tuple[Any, ...]:
        parts = (self.name, self.kind, self.shape, self.dtype, self.encoding)
        recipe = None if self.quantized is None else repr(self.quantized.to_json())
        return (*parts, self.sequence, self.optional, repr(self.default), recipe)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Feature) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise FormatError(f"a feature's name is {name!r}, expected a string")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise FormatError(f"the name {name!r} holds half a character, expected UTF-8") from None


def _check_choice(feature: Feature, part: str, choices: Iterable[Any]) -> None:
    found = getattr(feature, part)
    for choice in choices:
        # By type too: 1 is not True here, and an unhashable is no member.
        if type(found) is type(choice) and found == choice:
            return
    expected = ", ".join(map(repr, choices))
    raise FormatError(f"feature {feature.name!r}: {part} is {found!r}, expected {expected}")


def _check_recipe(feature: Feature, recipe: Recipe) -> None:
    if feature.encoding != "tensor" or feature.sequence:
        raise FormatError(f"feature {feature.name!r}: only serialized tensors are quantized")
    if recipe.dtype != feature.dtype or recipe.axis is not None:
        raise FormatError(
            f"feature {feature.name!r}: the recipe is for {recipe.dtype} and axis {recipe.axis}, "
            f"expected {feature.dtype} and one scale"
        )


def _as_shape(feature: Feature) -> Shape:
    try:
        shape = tuple(None if size is None else operator.index(size) for size in feature.shape)
        shape = (-1,) if any(isinstance(size, bool) for size in feature.shape) else shape
    except TypeError:
        shape = (-1,)
    numbers = [size for size in shape if size is not None]
    # A value has its bytes checked when it is read; this keeps products of sizes plain numbers.
    if min(numbers, default=0) < 0 or math.prod(numbers) >= 2**63 or len(shape) > 254:
        raise FormatError(
            f"feature {feature.name!r}: shape is {feature.shape!r:.80}, "
            "expected sizes of 0 or more, or None"
        )
    if feature.encoding == "plain":
        if None in shape[1:]:
            raise FormatError(
                f"feature {feature.name!r}: shape is {shape}, expected None in front only: "
                "a list of values tells one size"
            )
        if None in shape and 0 in shape:
            raise FormatError(
                f"feature {feature.name!r}: shape is {shape}, in which no values are any number "
                "of rows"
            )
    return shape


def _as_default(feature: Feature) -> Any:
    """The default in Python's scalars and tuples of them."""
    if feature.encoding != "plain" or feature.sequence or None in feature.shape:
        raise FormatError(
            f"feature {feature.name!r}: a default goes with a plain feature of fixed shape"
        )
    try:
        array = np.array(feature.default, dtype=object)
        values = [_as_scalar(value, feature.kind) for value in array.ravel().tolist()]
        if array.size == 0 and 0 in feature.shape:
            return ()
        if array.shape not in ((), feature.shape):
            raise ValueError(f"its shape is {array.shape}, expected {feature.shape}")
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"feature {feature.name!r}: default is {feature.default!r:.80}, "
            f"which is no {feature.kind} value of shape {feature.shape}: {error}"
        ) from None
    filled = np.empty(len(values), dtype=object)
    filled[:] = values
    return _as_tuples(filled.reshape(array.shape).tolist())


def _as_scalar(value: Any, kind: Kind) -> int | float | bytes:
    if kind == "bytes":
        if not isinstance(value, bytes | str):
            raise TypeError(f"{type(value).__name__}, expected bytes")
        return value.encode() if isinstance(value, str) else value
    if kind == "int64":
        number = operator.index(value)
        if not -(2**63) <= number < 2**63:
            raise OverflowError(f"{number} takes more than 64 bits")
        return int(number)
    if not isinstance(value, Real):
        raise TypeError(f"{type(value).__name__}, expected a number")
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    if np.isinf(narrow) and math.isfinite(value):
        raise OverflowError(f"{value} is more than a float32 holds")
    return float(narrow)


def _as_tuples(node: Any) -> Any:
    return tuple(map(_as_tuples, node)) if isinstance(node, list) else node


def make_feature(
    name: str,
    dtype: Any,
    shape: Any,
    *,
    sequence: bool = False,
    optional: bool = False,
    default: Any = None,
) -> Feature:
    """The feature for a dtype and shape: plain where Examples have the dtype, else a tensor.

    Args:
        name: The key in the Example.
        dtype: Anything that names a dtype.
        shape: A size or several; None or -1 for an open one.
        sequence: Whether it is one of a SequenceExample's feature lists.
        optional: Whether rows may lack it.
        default: The value of rows without the feature.
    """
    try:
        row = dtypes.as_dtype(dtype)
    except FerryError as error:
        raise error.located(tensor=name) from None
    if shape is None or isinstance(shape, int | np.integer):
        shape = (shape,)
    sizes = tuple(None if size == -1 else size for size in shape)
    kind = KINDS.get(row.name, "bytes")
    encoding: Encoding = "plain" if row.name in KINDS else "tensor"
    return Feature(name, kind, sizes, row.name, encoding, sequence, optional, default)
