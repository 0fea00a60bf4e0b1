"""What saving a model keeps, and what it does not: said before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorferry.frameworks.programs import FoundPath, NotKept, Signature
from tensorferry.tensors.values import TensorInfo

# How many lines of each kind a report shows.
SHOWN = 20


@dataclass(frozen=True)
class ModelReport:
    """What `save_model` keeps of a model; with `dry_run=True`, what it would keep.

    Attributes:
        path: The file, directory or prefix.
        format: Its format.
        files: The names of the files in a directory, or of the file; those whose number depends on
            their size are as TensorFlow names them for one.
        variables: That are kept, with dtype, shape and bytes.
        signatures: Ways to call it after loading; none where only weights are kept.
        kept: What else, in words.
        not_kept: What is left behind, each with the reason.
        absolute_paths: That the model has in it, such as those of vocabularies.
        needs: What whoever loads it has to supply or allow: classes, functions, Lambda layers.
        nbytes: Of all values of variables.
        written: Whether it was written.
    """

    path: str
    format: str
    files: tuple[str, ...]
    variables: tuple[TensorInfo, ...]
    signatures: tuple[Signature, ...] = ()
    kept: tuple[str, ...] = ()
    not_kept: tuple[NotKept, ...] = ()
    absolute_paths: tuple[FoundPath, ...] = ()
    needs: tuple[str, ...] = ()
    nbytes: int = 0
    written: bool = False

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        done = "written" if self.written else "not written"
        yield f"{self.path}: {self.format}, {done}, {self.nbytes} bytes of values"
        for signature in self.signatures:
            inputs = ", ".join(f"{name}: {spec}" for name, spec in signature.inputs.items())
            outputs = ", ".join(f"{name}: {spec}" for name, spec in signature.outputs.items())
            yield f"  signature {signature.name}({inputs}) -> {outputs}"
            yield from (f"    {note}" for note in signature.notes)
        yield from _shown("keeps", self.kept)
        yield from _shown("leaves out", [f"{one.what}: {one.reason}" for one in self.not_kept])
        yield from _shown("path", [f"{one.path} ({one.place})" for one in self.absolute_paths])
        yield from _shown("loading asks for", self.needs)


def _shown(what: str, lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    for line in lines[:SHOWN]:
        yield f"  {what} {line}"
    if len(lines) > SHOWN:
        yield f"  {what} {len(lines) - SHOWN} more"
