"""The report of saving a model: what the file keeps and leaves out, known before it is written."""

from __future__ import annotations

from collections.abc import Iterator

from tensorferry import display
from tensorferry.cards import Card, Shown, Tone
from tensorferry.classes import dataclass
from tensorferry.frameworks.programs import FoundPath, NotKept, Signature
from tensorferry.tensors.infos import TensorInfo, grid

# How many lines of each kind a report shows.
SHOWN = 20


@dataclass(frozen=True, repr=False)
class ModelReport(Shown):
    """What `save_model` keeps of a model; with `dry_run=True`, what it would keep.

    Attributes:
        path: The file, directory or prefix.
        format: The format of the file.
        files: The names of the files. Data files are named as if there were only one.
        variables: The variables that are kept, with dtype, shape and number of bytes.
        signatures: The ways to call the loaded model; empty if only weights are kept.
        kept: What else is kept, in words.
        not_kept: What is left out, each with the reason.
        absolute_paths: The absolute paths inside the model, such as those of vocabularies.
        needs: What loading requires: classes and functions to supply, Lambda layers to allow.
        nbytes: The number of bytes that the values of all variables take.
        written: Whether the file was written.
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

    def _card(self) -> Card:
        done = "written" if self.written else "not written"
        count = display.plural(len(self.variables), "variable")
        summary = f"{self.format}, {done}, {count}, {display.size(self.nbytes)}"
        fields = [(one.name, _called(one)) for one in self.signatures]
        lines: list[tuple[Tone, str]] = [("plain", f"keeps {one}") for one in self.kept]
        lines += [("note", f"leaves out {one.what}: {one.reason}") for one in self.not_kept]
        lines += [("note", f"path {one.path} ({one.place})") for one in self.absolute_paths]
        lines += [("note", f"loading asks for {one}") for one in self.needs]
        table = grid({info.name: info for info in self.variables}, noun="variable")
        return Card("ModelReport", self.path, summary, fields=fields, grids=[table], lines=lines)

    def __str__(self) -> str:
        return "\n".join(map(display.clean, self._lines()))

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


def _called(signature: Signature) -> str:
    inputs = ", ".join(f"{name}: {spec}" for name, spec in signature.inputs.items())
    outputs = ", ".join(f"{name}: {spec}" for name, spec in signature.outputs.items())
    return f"{inputs} → {outputs}"


def _shown(what: str, lines: tuple[str, ...] | list[str]) -> Iterator[str]:
    for line in lines[:SHOWN]:
        yield f"  {what} {line}"
    if len(lines) > SHOWN:
        yield f"  {what} {len(lines) - SHOWN} more"
