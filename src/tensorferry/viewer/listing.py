"""Questions about all of a file: what it is, and a list of its tensors or columns.

They are the first that a page asks, and are answered without NumPy, where the file allows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorferry
from tensorferry.operations import snippets
from tensorferry.operations.branches import branches
from tensorferry.tensors.infos import TensorInfo
from tensorferry.viewer.answers import Answer, of_json
from tensorferry.viewer.files import File
from tensorferry.viewer.queries import Query
from tensorferry.viewer.shown import Question, Shown

LISTED = 20_000
"""How many tensors are listed at once."""

NAMED = 2000
"""How many characters of a name are sent: longer ones are cut."""


class ListQuestions:
    """Answers questions about files as a whole."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lists: dict[tuple[int, int], Answer] = {}

    def questions(self) -> Mapping[str, Question]:
        """The questions by name."""
        return {
            "alive": lambda query: of_json({"alive": True}),
            "files": self.files,
            "info": self.info,
            "tensors": self.tensors,
        }

    def files(self, query: Query) -> Answer:
        """The files, as they are now: a page that is loaded anew shows what is new."""
        for file in self._shown.files:
            file.refresh()
        files = [file.summary() for file in self._shown.files]
        return of_json({"version": tensorferry.__version__, "files": files})

    def info(self, query: Query) -> Answer:
        """What is in a file, without its tensors."""
        file = self._shown.file(query)
        with file.lock:
            info = file.info
            # Rows that are damaged are left out, which only those who read them know.
            located = file.located if file.holds_rows else None
        return of_json(
            {
                "path": info.path,
                "format": info.format,
                "holds": info.holds,
                "count": located and located.count if file.holds_rows else info.count,
                "damages": None if located is None else located.damages,
                "file_count": len(info.files),
                "nbytes": info.nbytes,
                "version": info.version,
                "compression": info.compression,
                "metadata": _metadata(info.metadata),
                "problems": info.problems[:100],
                "notes": info.notes[:100],
                "dtypes": info.dtypes,
                "elements": info.elements,
                "tensors": len(info.tensors),
                "verified": file.is_verified,
                "copy": snippets.of_file(file.name),
            }
        )

    def tensors(self, query: Query) -> Answer:
        """The tensors or columns, as a list and as a tree."""
        file, text = self._shown.file(query), query.text("search").lower()
        with file.lock:
            if text:
                return self._list(file, text)
            if file.key not in self._lists:
                self._lists[file.key] = self._list(file)
            return self._lists[file.key]

    def _list(self, file: File, text: str = "") -> Answer:
        infos = list(file.infos.values())
        chosen = [n for n, info in enumerate(infos) if not text or text in info.name.lower()]
        shown = chosen[:LISTED]
        some = [infos[number] for number in shown]
        return of_json(
            {
                "tensors": [listed(n, info) for n, info in zip(shown, some, strict=True)],
                "tree": branches(some) if not file.holds_rows else [],
                "total": len(chosen),
            }
        )


def _metadata(metadata: Mapping[str, Any]) -> Any:
    """What was kept with a file, as far as it is not too large."""
    if not metadata:
        return {}
    from tensorferry.operations.cells import expand

    return expand(dict(metadata))[0]


def listed(number: int, info: TensorInfo) -> Mapping[str, Any]:
    """A tensor in a list."""
    return {
        "number": number,
        "name": info.name[:NAMED],
        "cut": len(info.name) > NAMED,
        "dtype": info.dtype[:80],
        "shape": info.shape,
        "nbytes": info.nbytes,
        "kind": info.kind,
        "quantized": info.quantized,
        "unreadable": None if info.unreadable is None else info.unreadable[:500],
    }
