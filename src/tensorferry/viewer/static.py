"""One HTML file with the page and what it would ask: to be sent to somebody.

The questions that the page asks first are answered now, and their answers are kept in the file: all
that is known of tensors and rows without zooming, as far as the size allows. What was left out is
told on the page and to whoever wrote the file. The file asks nobody, and needs no server.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import tensorferry
from tensorferry.classes import dataclass, field
from tensorferry.operations.planes import arrangement
from tensorferry.storage.place import Target
from tensorferry.tensors.infos import TensorInfo
from tensorferry.viewer.answers import JSON, Answer
from tensorferry.viewer.api import Api
from tensorferry.viewer.files import File
from tensorferry.viewer.server import read_page

LARGEST = 16 << 20
"""How many bytes of answers the file has, at most."""

SECONDS = 90.0
"""How long answers are collected, at most."""

ANSWER = 1 << 20
"""The most bytes of one answer."""

ROWS = 100
"""How many rows are kept."""

COLUMNS = 24
"""Of how many columns statistics are kept."""

Question = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class StaticReport:
    """What was written.

    Attributes:
        path: The file.
        nbytes: Its size.
        left_out: What the page would show, and the file does not.
    """

    path: str
    nbytes: int
    left_out: tuple[str, ...]


@dataclass
class _Recorder:
    """Collects answers until there are too many."""

    api: Api
    answers: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    end: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def keep(self, name: str, **parameters: str | int) -> bool:
        """Keeps the answer to a question, once its job has finished; whether there was room."""
        query = urlencode(sorted(parameters.items()))
        answer = self.api.answer(name, query)
        while answer.status == 200 and answer.type == JSON and not _is_finished(answer):
            if time.monotonic() > self.end:
                return False
            time.sleep(0.02)
            answer = self.api.answer(name, query)
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        room = min(
            ANSWER if name not in ("tensors", "comparison", "statistics") else LARGEST,
            LARGEST - self.size,
        )
        if answer.status != 200 or len(body) > room:
            return False
        if answer.type == JSON:
            kept: dict[str, Any] = {"json": json.loads(body)}
            self.size += len(body)
        else:
            kept = {"type": answer.type, "base64": base64.b64encode(body).decode()}
            self.size += len(kept["base64"])
        self.answers[f"{name}?{query}"] = kept
        return True

    @property
    def is_full(self) -> bool:
        """Whether no more fits, or there is no time."""
        return self.size > LARGEST * 0.97 or time.monotonic() > self.end

    def found(self, name: str, **parameters: int) -> Any:
        """An answer that was kept."""
        kept = self.answers.get(f"{name}?{urlencode(sorted(parameters.items()))}")
        return None if kept is None else kept.get("json")


def _is_finished(answer: Answer) -> bool:
    """Whether an answer is no longer that of a job that goes on."""
    assert isinstance(answer.body, bytes)
    if b'"finished":false' not in answer.body:
        return True
    found = json.loads(answer.body)
    return not isinstance(found, dict) or found.get("finished") is not False


def write(api: Api, path: str | os.PathLike[str]) -> StaticReport:
    """Writes the page of some files as one file.

    Args:
        api: Answers the questions; closed afterwards.
        path: Where to.
    """
    recorder = _Recorder(api)
    try:
        left_out = list(_record(recorder, api.shown.files))
    finally:
        api.close()
    recording = {
        "version": tensorferry.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "left_out": left_out,
        "answers": recorder.answers,
    }
    data = page(recording)
    target = Target(os.fspath(path))
    with target.sink() as sink:
        sink.write(data)
    return StaticReport(os.fspath(path), len(data), tuple(left_out))


def page(recording: Mapping[str, Any]) -> bytes:
    """The HTML file of a recording."""
    files = {name: data.decode() for name, data in read_page().items()}
    modules = {
        f"ferry/{name}": "data:text/javascript;base64,"
        + base64.b64encode(_named_modules(text).encode()).decode()
        for name, text in files.items()
        if name.endswith(".js")
    }
    icon = base64.b64encode(files["icon.svg"].encode()).decode()
    imports = json.dumps({"imports": modules})
    start = 'import "ferry/main.js";'
    style = files["style.css"]
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; media-src data:; "
        f"script-src {_hash(imports)} {_hash(start)} data:; style-src {_hash(style)}; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    # The text of a file could end the element that holds it.
    data = json.dumps(recording, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>ferry</title>\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n<style>{style}</style>\n'
        f'<script type="importmap">{imports}</script>\n</head>\n<body>\n'
        f'<script type="application/json" id="recording">{data}</script>\n'
        f'<script type="module">{start}</script>\n</body>\n</html>\n'
    ).encode()


def _named_modules(text: str) -> str:
    """The text of a module that imports others by the names that the import map has."""
    return text.replace('from "./', 'from "ferry/').replace('import("./', 'import("ferry/')


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _record(recorder: _Recorder, files: list[File]) -> Iterator[str]:
    """Keeps answers, and tells what was left out."""
    recorder.keep("files")
    readable = [file for file in files if "error" not in file.summary()]
    for file in readable:
        yield from _record_head(recorder, file)
    if len(readable) == len(files) == 2:
        yield from _record_pair(recorder, *files)
    for file in readable:
        yield from (
            _record_rows(recorder, file) if file.holds_rows else _record_tensors(recorder, file)
        )
    yield "zooming into heat maps, filters and downloads, which need `ferry view`"


def _record_head(recorder: _Recorder, file: File) -> Iterator[str]:
    recorder.keep("info", file=file.number)
    if not recorder.keep("tensors", file=file.number):
        yield f"the tensors of {file.name}"
    model = file.info.model
    if model is not None:
        recorder.keep("model", file=file.number)
        if model.kind == "keras":
            recorder.keep("layers", file=file.number)
        else:
            graphs = recorder.found("model", file=file.number)["graphs"]
            start = graphs[0]["start"] if graphs else -1
            if not recorder.keep("graph", file=file.number, function=start):
                yield f"the graph of {file.name}"
    if not file.holds_rows and not recorder.keep("statistics", file=file.number):
        yield f"the statistics of {file.name}"


def _record_pair(recorder: _Recorder, a: File, b: File) -> Iterator[str]:
    if a.holds_rows != b.holds_rows:
        return
    if a.holds_rows:
        if not recorder.keep("row_differences", a=0, b=1):
            yield "the rows that differ"
            return
        pairs = recorder.found("row_differences", a=0, b=1)["items"][:50]
        left, right = (",".join(str(pair[side]) for pair in pairs) for side in (0, 1))
        recorder.keep("row_pairs", a=0, b=1, left=left, right=right)
        return
    recorder.keep("grid", a=0, b=1)
    if not recorder.keep("comparison", a=0, b=1):
        yield "the comparison of the tensors"
        return
    changed = [
        item
        for item in recorder.found("comparison", a=0, b=1)["items"]
        if "change" in item and not item["change"]["equal"] and _has_cells(a, b, item)
    ]
    missing = 0
    for item in changed:
        question = {"a": 0, "b": 1, "left": item["a"], "right": item["b"], "reduce": "largest"}
        if recorder.size > LARGEST / 3 or not recorder.keep("difference", **question):
            missing += 1
    if missing:
        yield f"the cells of {missing:,} of {len(changed):,} tensors that changed"


def _has_cells(a: File, b: File, item: Mapping[str, Any]) -> bool:
    """Whether two tensors are planes of numbers; of others, the values themselves are kept."""
    for file, number in ((a, item["a"]), (b, item["b"])):
        with file.reading() as subject:
            info = subject.infos[file.name_at(number)]
        if info.kind != "dense" or not info.shape:
            return False
    return True


def _record_tensors(recorder: _Recorder, file: File) -> Iterator[str]:
    with file.reading() as subject:
        infos = list(enumerate(subject.infos.values()))
    missing = 0
    for number, info in sorted(infos, key=lambda pair: -(pair[1].nbytes or 0)):
        if recorder.is_full or not recorder.keep("tensor", file=file.number, tensor=number):
            missing += 1
            continue
        name, extra = _picture(info)
        if name and not recorder.keep(name, file=file.number, tensor=number, **extra):
            missing += 1
    if missing:
        yield f"the values of {missing:,} of {len(infos):,} tensors of {file.name}"


def _picture(info: TensorInfo) -> tuple[str | None, dict[str, Any]]:
    """The question for the picture of a tensor, as the page asks it."""
    arranged = arrangement(info)
    if arranged.look == "matrix":
        return "plane", {} if len(info.shape) == 2 else {"rank": len(info.shape)}
    if arranged.look == "tiles":
        assert arranged.inputs is not None
        return "filters", {"most": "24,3" if info.shape[arranged.inputs] == 3 else "24,16"}
    if arranged.look == "image":
        return "picture", {}
    if arranged.look in ("unreadable", "empty"):
        return None, {}
    return ("line" if arranged.look == "line" else "values"), {}


def _record_rows(recorder: _Recorder, file: File) -> Iterator[str]:
    recorder.keep("rows", file=file.number)
    recorder.keep("located", file=file.number)
    count = file.locate().count
    if count is None or count > ROWS:
        yield f"rows of {file.name} from {ROWS} on"
    names = len(file.names)
    for column in range(min(names, COLUMNS)):
        if recorder.is_full or not recorder.keep("column", file=file.number, column=column):
            yield f"the statistics of columns of {file.name} from {column} on"
            break
    found = recorder.found("rows", file=file.number)
    missing = 0
    for row in [] if found is None else found["rows"]:
        for column, cell in enumerate(row["cells"]):
            question = {"file": file.number, "row": row["number"], "column": column}
            if cell["media"] is not None:
                missing += recorder.is_full or not recorder.keep("media", **question)
            elif cell["more"]:
                missing += recorder.is_full or not recorder.keep("value", **question)
    if missing:
        yield f"{missing:,} long values, pictures or sounds of {file.name}"
