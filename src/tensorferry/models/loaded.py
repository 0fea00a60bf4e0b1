"""A model that was loaded: called with whatever a user has, giving NumPy or what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorferry import frameworks
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.variables import Variable
from tensorferry.models.dangers import Danger
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array


@dataclass(frozen=True)
class LoadedSignature:
    """One way to call a model: tensors by name in, a dict of tensors out.

    Attributes:
        name: Of the signature.
        inputs: Dtype and shape by the name of each argument, as in "float32[?, 3]".
        outputs: Dtype and shape by the name of each result.
        to: The framework whose tensors it gives.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    to: str = "numpy"
    _call: Callable[[tuple[Any, ...], Mapping[str, Any]], Any] = field(
        repr=False, compare=False, default=lambda positional, named: None
    )

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """The results by name.

        Args:
            *positional: The only argument, or a dict of all.
            **named: Arrays, lists of numbers, or tensors of any framework.

        Raises:
            TypeError: These are not the names that it takes.
            MismatchError: A value does not fit.
        """
        return frameworks.give(frameworks.accept(self._call(positional, named)), self.to)


class Values(Mapping[str, Array]):
    """The values that a model's variables have now, by name.

    Args:
        variables: Of the model.
        stored: Those that the framework does not show, as they are in the file.
    """

    def __init__(
        self, variables: Iterable[Variable], stored: Mapping[str, Stored] | None = None
    ) -> None:
        self._read: dict[str, Callable[[], Any]] = {
            name: tensor.read for name, tensor in (stored or {}).items()
        }
        self._read.update({variable.name: variable.read for variable in variables})

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._read[name]())

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    def __repr__(self) -> str:
        return f"<values of {len(self)} variables>"


@dataclass(frozen=True)
class LoadedModel:
    """A model, back as something to call.

    Attributes:
        path: What it was loaded from.
        format: "savedmodel" or "keras".
        signatures: Ways to call it by name; none for Keras' own files.
        variables: The values of its variables by name.
        to: The framework whose tensors it gives.
        dangers: What it does beside computing, which the caller allowed.
        model: What TensorFlow or Keras made of the file.
    """

    path: str
    format: str
    signatures: Mapping[str, LoadedSignature]
    variables: Mapping[str, Array] = field(repr=False)
    to: str
    dangers: tuple[Danger, ...]
    model: Any = field(repr=False)
    _call: Callable[[tuple[Any, ...], Mapping[str, Any]], Any] | None = field(repr=False)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """What the model gives: the structure that its function gave when it was saved.

        Args:
            *positional: Arrays, lists of numbers, tensors of any framework, structures of those.
            **named: Likewise.

        Raises:
            MismatchError: A value does not fit.
            TypeError: These are not the arguments that it takes.
        """
        if self._call is None:
            raise UnsupportedError(
                "the model says not which of its signatures is to be called",
                path=self.path,
                hint=f"load_model(..., signature=) or model.signatures[...]: "
                f"{', '.join(self.signatures) or 'it has none'}",
            )
        return frameworks.give(frameworks.accept(self._call(positional, named)), self.to)
