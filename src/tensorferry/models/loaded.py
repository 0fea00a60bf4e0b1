"""Loaded models: called with a user's values, they return NumPy arrays or another framework's.

model = ferry.load_model("encoder", to="torch")
model.signatures["serving_default"](x=array)["output_0"]      # a torch tensor
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorferry import display, frameworks
from tensorferry.cards import Card, Shown, Tone
from tensorferry.classes import dataclass, field
from tensorferry.errors import UnsupportedError
from tensorferry.frameworks.contract import Variable
from tensorferry.models.dangers import Danger
from tensorferry.tensors.stored import Stored
from tensorferry.tensors.values import Array


@dataclass(frozen=True)
class LoadedSignature:
    """One way to call a model: tensors by name in, a dict of tensors out.

    Attributes:
        name: The name of the signature.
        inputs: Dtype and shape by the name of each argument, as in "float32[?, 3]".
        outputs: Dtype and shape by the name of each result.
        to: The framework whose tensors a call returns.
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
            *positional: The only argument, or a dict with all arguments.
            **named: Arrays, lists of numbers, or tensors of any framework.

        Raises:
            TypeError: These are not the arguments that the signature takes.
            MismatchError: A value does not fit.

        Examples:
            >>> model.signatures["serving_default"](x=[[1.0, 2.0, 3.0]])["output_0"].shape
            (1, 8)
        """
        return frameworks.give(frameworks.accept(self._call(positional, named)), self.to)


def _arguments(given: Mapping[str, str]) -> str:
    """Names with dtypes and shapes, on one line."""
    return ", ".join(f"{name}: {kind}" for name, kind in given.items())


class Values(Mapping[str, Array]):
    """The current values of a model's variables by name.

    Args:
        find: Finds the variables of the model. It is called when a value is asked for: most
            programs only call the model.
        stored: Tensors in the file, for variables that the framework does not show.
    """

    def __init__(
        self, find: Callable[[], Iterable[Variable]], stored: Mapping[str, Stored] | None = None
    ) -> None:
        self._find = find
        self._stored = stored or {}

    @cached_property
    def _read(self) -> dict[str, Callable[[], Any]]:
        """What reads each of them."""
        read: dict[str, Callable[[], Any]] = {
            name: tensor.read for name, tensor in self._stored.items()
        }
        return {**read, **{variable.name: variable.read for variable in self._find()}}

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._read[name]())

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)

    def __repr__(self) -> str:
        return f"<values of {len(self)} variables>"


@dataclass(frozen=True, repr=False)
class LoadedModel(Shown):
    """A loaded model, which can be called.

    Attributes:
        path: The file or directory.
        format: "savedmodel" or "keras".
        signatures: The signatures by name; empty for Keras' own files.
        variables: The current values of the variables by name.
        to: The framework whose tensors a call returns.
        dangers: What the model does besides computing, and the caller allowed.
        model: The object that TensorFlow or Keras loaded.
    """

    path: str
    format: str
    signatures: Mapping[str, LoadedSignature]
    variables: Mapping[str, Array]
    to: str
    dangers: tuple[Danger, ...]
    model: Any
    _call: Callable[[tuple[Any, ...], Mapping[str, Any]], Any] | None

    def _card(self) -> Card:
        summary = f"{self.format}, {display.plural(len(self.variables), 'variable')}"
        fields = [
            (one.name, f"{_arguments(one.inputs)} → {_arguments(one.outputs)}")
            for one in self.signatures.values()
        ]
        lines: list[tuple[Tone, str]] = [("note", f"allowed: {one}") for one in self.dangers]
        returns = "arrays of NumPy" if self.to == "numpy" else f"tensors of {self.to}"
        fields.append(("returns", returns))
        return Card("LoadedModel", self.path, summary, fields=fields, lines=lines)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """The result of the model, in the structure that its function returns.

        Args:
            *positional: Arrays, lists of numbers, tensors of any framework, structures of those.
            **named: The same, by the names of the arguments.

        Raises:
            MismatchError: A value does not fit.
            TypeError: These are not the arguments that the model takes.
        """
        if self._call is None:
            raise UnsupportedError(
                "the model does not say which of its signatures a call means",
                path=self.path,
                hint=f"load_model(..., signature=) or model.signatures[...]: "
                f"{', '.join(self.signatures) or 'it has none'}",
            )
        return frameworks.give(frameworks.accept(self._call(positional, named)), self.to)

    if not TYPE_CHECKING:  # for a type checker, a name that is not there is an error

        def __getattr__(self, name: str) -> object:
            from tensorferry.signposts import missing_method

            own = vars(self).get("model")  # not there yet while it is copied
            instead = None
            if name[:1] != "_" and hasattr(own, name):
                other = ", or tensorferry.predict(model, inputs)" if name == "predict" else ""
                instead = f"model.model.{name}{other}"
            raise missing_method(self, name, instead)
