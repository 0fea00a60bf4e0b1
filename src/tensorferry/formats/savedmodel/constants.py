"""The values of Const nodes: TensorProtos, read from where they lie in a graph.

Which constants there are is `tensorferry.formats.savedmodel.graph`, which needs no NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorferry import dtypes
from tensorferry.classes import dataclass
from tensorferry.codecs.protobuf import Span
from tensorferry.dtypes import DType
from tensorferry.errors import UnsupportedError
from tensorferry.formats.savedmodel.messages import Reader
from tensorferry.formats.savedmodel.specs import no_values, read_tensor
from tensorferry.tensors.stored import Stored, Unreadable
from tensorferry.tensors.values import Array, Kind


@dataclass(frozen=True, slots=True)
class StoredConstant(Stored):
    """The tensor of a Const node, as it lies in the file."""

    reader: Reader
    span: Span
    dtype: DType
    shape: tuple[int | None, ...]

    @property
    def kind(self) -> Kind:
        """How it is made."""
        return "string" if self.dtype is dtypes.STRING else "dense"

    @property
    def nbytes(self) -> int:
        """Number of bytes it takes in the file."""
        return self.span.end - self.span.start

    def read(self) -> Any:
        """The tensor."""
        return read_tensor(self.reader, self.span)

    def read_part(self, index: Any) -> Array:
        """Some of its values."""
        return np.asarray(self.read()[index])


def stored(reader: Reader, span: Span, row: DType, shape: tuple[int | None, ...]) -> Stored:
    """The tensor of a Const node; one without values, such as a variant, cannot be read."""
    reason = no_values(row)
    if reason is not None:
        return Unreadable(UnsupportedError(reason), row.name, shape, span.end - span.start)
    return StoredConstant(reader, span, row, shape)
