"""Diagnosing: which parts of a living object each way of saving keeps, and what to do.

The object is examined and never called: no forward pass, no property, no tracing, no file. Five
ways are judged: pickle and cloudpickle by asking the picklers (`pickling`), SavedModel, .keras and
weights by what the frameworks track (`tracking`). This module brings their answers together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

from tensorferry.diagnosis.cures import cure_for
from tensorferry.diagnosis.object_walk import Part, is_atom
from tensorferry.diagnosis.pickling import Pickling, Problem, StandIn, has_cloudpickle
from tensorferry.diagnosis.recipes import write_recipe
from tensorferry.diagnosis.report import (
    WAYS,
    Advice,
    AttributeReport,
    DiagnosisReport,
    Verdict,
    Way,
    WayReport,
)
from tensorferry.diagnosis.structure import Structure, type_name
from tensorferry.diagnosis.tracking import KerasView, SavedModelView, View, WeightsView
from tensorferry.frameworks import table
from tensorferry.frameworks.contract import KerasProblem
from tensorferry.frameworks.programs import FORWARD
from tensorferry.frameworks.variables import find_variables
from tensorferry.progress import Progress, Tally, following

# How many circular references the notes mention.
CIRCLES = 3


def diagnose(model: Any, *, progress: Progress | bool | None = None) -> DiagnosisReport:
    """Finds out why an object cannot be saved or pickled, and what to do.

    Args:
        model: A model of any framework, or any other Python object. It is neither called nor
            changed.
        progress: True shows a bar; a function receives the number of ways of saving judged and the
            total.

    Returns:
        What each way of saving keeps, attribute by attribute; `print` shows it as a page of text.

    Examples:
        >>> import threading
        >>> from types import SimpleNamespace
        >>> report = ferry.diagnose(SimpleNamespace(w=np.zeros(3), lock=threading.Lock()))
        >>> report.ways["pickle"].reason.endswith("cannot pickle '_thread.lock' object")
        True
    """
    with following(progress, type_name(model), "ways") as tell:
        return _Diagnosis(model, tell).report()


class _Diagnosis:
    """One object, and the answers of all ways.

    A row is an attribute of the object, or something in the way of saving it: the path that leads
    there, the value, and the reasons by way.
    """

    def __init__(self, model: Any, tell: Progress | None = None) -> None:
        ways: list[Literal["pickle", "cloudpickle"]] = ["pickle"]
        if has_cloudpickle():
            ways.append("cloudpickle")
        judged = Tally(tell, 3 + len(ways))
        self._structure = Structure(model)
        self._keras = KerasView(self._structure)
        judged.add(1)
        self._views: dict[Way, View] = {
            "savedmodel": SavedModelView(self._structure),
            "keras": self._keras,
            "weights": WeightsView(self._structure),
        }
        judged.add(2)
        self._picklings: dict[Way, Pickling] = {}
        for way in ways:
            self._picklings[way] = self._pickled(model, way)
            judged.add(1)
        self._rows: dict[Any, tuple[str, Any, dict[Way, str]]] = {}
        self._failing: dict[Way, set[int]] = {}
        self._lost: set[str] = set()

    def _pickled(self, model: Any, way: Literal["pickle", "cloudpickle"]) -> Pickling:
        return Pickling(model, way, self._stand_in)

    def _stand_in(self, value: Any) -> StandIn | None:
        """What is known without pickling: tensors pickle, Keras' objects do as their files do."""
        structure = self._structure
        if structure.is_bulk(value):
            return StandIn()
        if not structure.is_saveable(value):
            return None
        known = self._keras.problems.get(id(value))
        found = structure.keras.problems(value) if known is None else known
        return StandIn(
            tuple(
                Problem(one.step, one.value, one.reason)
                for one in found
                if one.when in ("save", "load")
            ),
            type(value),
        )

    def report(self) -> DiagnosisReport:
        """The answers of all ways, brought together."""
        self._collect()
        ways = {way: self._whole(way) for way in WAYS}
        weights = ways["weights"].verdict
        return DiagnosisReport(
            type_name(self._structure.root),
            ways,
            tuple(self._attributes()),
            tuple(self._advice(ways)),
            write_recipe(self._structure) if weights in ("keeps", "drops") else None,
            tuple(self._notes()),
        )

    def _collect(self) -> None:
        """Adds a row for each attribute of the object, and for everything that is in the way."""
        for part in self._structure.first:
            self._row(part.step.replace("{}", "model", 1), part.value)
        for way, pickling in self._picklings.items():
            for place, reason in pickling.blamed.items():
                value = pickling.walk.nodes[place].value
                self._blame(way, pickling.walk.path(place), value, reason)
        for one, path in self._keras_problems():
            if self._keras.applies:
                self._blame("keras", path, one.value, one.reason)
            if one.when == "lost":
                self._lost.add(path)
                for way in self._picklings:
                    self._blame(way, path, one.value, one.reason)
        for way, view in self._views.items():
            if view.applies:
                for place, reason in (*view.blamed.items(), *view.lost.items()):
                    node = view.structure.walk.nodes[place]
                    self._blame(way, view.path(place), node.value, reason)

    def _keras_problems(self) -> Iterator[tuple[KerasProblem, str]]:
        """The problems that Keras' own ways of saving have, each with its path."""
        walk = self._structure.walk
        for identity, problems in self._keras.problems.items():
            start = walk.path(walk.places[identity])
            for one in problems:
                yield one, one.step.replace("{}", start, 1)

    def _row(self, path: str, value: Any) -> dict[Way, str]:
        """The reasons of a row; a value that was met before keeps its first row."""
        key = path if is_atom(value) else id(value)
        return self._rows.setdefault(key, (path, value, {}))[2]

    def _blame(self, way: Way, path: str, value: Any, reason: str) -> None:
        self._row(path, value).setdefault(way, reason)

    def _attributes(self) -> Iterator[AttributeReport]:
        for path, value, reasons in self._rows.values():
            verdicts = {way: self._verdict(way, path, value) for way in WAYS}
            yield AttributeReport(
                path,
                type_name(value),
                verdicts,
                reasons,
                cure_for(value, reasons.values()) if reasons else None,
            )

    def _whole(self, way: Way) -> WayReport:
        if way in ("pickle", "cloudpickle"):
            pickling = self._picklings.get(way)
            if pickling is None:
                return WayReport(way, "unjudged", "cloudpickle is not installed")
            if pickling.blamed:
                place, reason = next(iter(pickling.blamed.items()))
                return WayReport(way, "fails", f"{pickling.walk.path(place)}: {reason}")
            if pickling.unfinished:
                return WayReport(way, "unjudged", pickling.unfinished)
            lost = next((row for row in self._rows.values() if way in row[2]), None)
            if lost is not None:
                return WayReport(way, "drops", f"{lost[0]}: {lost[2][way]}")
            for place, reason in self._keras.lost.items():
                return WayReport(way, "drops", f"{self._structure.walk.path(place)}: {reason}")
            return WayReport(way, "keeps")
        view = self._views[way]
        if not view.applies:
            return WayReport(way, "inapplicable", view.reason)
        if view.reason is not None:
            return WayReport(way, "fails", view.reason)
        for path, _, reasons in self._rows.values():
            if way in reasons:
                verdict: Verdict = "fails" if self._fails(way) else "drops"
                return WayReport(way, verdict, f"{path}: {reasons[way]}")
        return WayReport(way, "keeps")

    def _fails(self, way: Way) -> bool:
        if way == "keras":
            found = self._keras.problems[id(self._structure.root)]
            return any(one.when != "lost" for one in found)
        return bool(self._views[way].blamed)

    def _verdict(self, way: Way, path: str, value: Any) -> Verdict:
        """What a way does with one attribute."""
        if way in ("pickle", "cloudpickle"):
            return self._pickle_verdict(way, path, value)
        view = self._views[way]
        if not view.applies:
            return "inapplicable"
        if view.reason is not None:
            return "drops"
        place = self._structure.walk.places.get(id(value))
        if place is not None and place in self._failing_places(way):
            return "fails"
        if self._is_blamed(way, path, value) and path not in self._lost and place is None:
            return "fails"
        return "keeps" if self._is_kept(view, path, value, place) else "drops"

    def _is_blamed(self, way: Way, path: str, value: Any) -> bool:
        key = path if is_atom(value) else id(value)
        return key in self._rows and way in self._rows[key][2]

    def _is_kept(self, view: View, path: str, value: Any, place: int | None) -> bool:
        if place is None or is_atom(value):
            step = f"{{}}{path.removeprefix('model')}"
            return view.keeps(self._structure.root, Part(step, value))
        if place == 0:
            return True
        node = self._structure.walk.nodes[place]
        assert node.holder is not None
        holder = self._structure.walk.nodes[node.holder].value
        return view.keeps(holder, Part(node.step, value))

    def _failing_places(self, way: Way) -> set[int]:
        """All objects that hold something which makes a way fail."""
        known = self._failing.get(way)
        if known is None:
            walk = self._structure.walk
            if way == "keras":
                found = self._keras.problems.get(id(self._structure.root), [])
                values = [one.value for one in found if one.when != "lost"]
                places = [walk.places[id(one)] for one in values if id(one) in walk.places]
            else:
                places = list(self._views[way].blamed)
            known = self._failing[way] = walk.above(places)
        return known

    def _pickle_verdict(self, way: Way, path: str, value: Any) -> Verdict:
        pickling = self._picklings.get(way)
        if pickling is None:
            return "unjudged"
        step = f"{{}}{path.removeprefix('model')}"
        if not pickling.blamed and step in pickling.kept:
            return "keeps"
        if way not in self._failing:
            self._failing[way] = pickling.walk.above(pickling.blamed)
        place = pickling.walk.places.get(id(value)) if not is_atom(value) else None
        if place is not None:
            return "fails" if place in self._failing[way] else "keeps"
        if self._is_blamed(way, path, value) and path not in self._lost:
            return "fails"
        at = self._structure.walk.places.get(id(value)) if not is_atom(value) else None
        line = self._structure.walk.line(at) if at is not None else [0]
        if any(self._structure.is_saveable(self._structure.walk.nodes[one].value) for one in line):
            return self._keras_verdict(path, value, at)
        return "keeps" if step in pickling.kept else "drops"

    def _keras_verdict(self, path: str, value: Any, place: int | None) -> Verdict:
        """What a pickle keeps of Keras' objects, which is what their files keep."""
        return "keeps" if self._is_kept(self._keras, path, value, place) else "drops"

    def _advice(self, ways: dict[Way, WayReport]) -> Iterator[Advice]:
        order: tuple[Way, ...] = ("keras", "savedmodel", "weights", "pickle", "cloudpickle")
        has_weights = ways["weights"].verdict in ("keeps", "drops")
        if ways["savedmodel"].verdict == "inapplicable" and has_weights and self._is_traceable():
            yield Advice(
                "savedmodel",
                'ferry.save_model(model, "model", inputs=examples)',
                "a SavedModel of what it does with examples, and of the variables it uses",
            )
        working = [way for way in order if ways[way].verdict in ("keeps", "drops")]
        for way in sorted(working, key=lambda way: ways[way].verdict == "drops"):
            code, note = _CALLS[way]
            if ways[way].verdict == "drops":
                note = f"{note}; not kept: {ways[way].reason}"
            yield Advice(way, code, note)

    def _is_traceable(self) -> bool:
        """Whether the object is a plain one that computes with variables of TensorFlow."""
        root = self._structure.root
        methods = {name for kind in type(root).__mro__ for name in vars(kind)}
        if not table.in_use("tensorflow") or methods.isdisjoint(FORWARD):
            return False
        return any(map(table.variables("tensorflow").is_variable, find_variables(root).holders))

    def _notes(self) -> Iterator[str]:
        walk = self._structure.walk
        for holder, step, target in islice(walk.circles(), CIRCLES):
            yield (
                f"{step.replace('{}', walk.path(holder), 1)} is {walk.path(target)} again: "
                "pickle and cloudpickle keep such circles"
            )
        main = list(self._picklings["pickle"].main)
        if main:
            yield (
                f"{', '.join(main)} in __main__: pickle keeps the name alone, which only a program "
                "with the same __main__ understands. In a module it would be found; cloudpickle "
                "takes it along"
            )
        blamed = self._views["savedmodel"].blamed.values()
        if self._keras.applies and blamed and all("untracked" in one for one in blamed):
            yield (
                "SavedModel is judged by tf.saved_model.save; model.export(path) also takes "
                "variables that nobody tracks"
            )
        if "cloudpickle" not in self._picklings:
            yield "cloudpickle is not installed: pip install cloudpickle, and it is judged, too"
        if not walk.complete:
            yield f"only the first {len(walk.nodes):,} objects in it were looked at"


_CALLS: dict[Way, tuple[str, str]] = {
    "keras": ('ferry.save_model(model, "model.keras")', "Keras' own file"),
    "savedmodel": (
        'ferry.save_model(model, "model")',
        "a SavedModel: runs where the classes that made it are not",
    ),
    "weights": (
        'ferry.save_weights(model, "model.safetensors")',
        "the weights alone; the recipe rebuilds the rest",
    ),
    "pickle": (
        "pickle.dumps(model)",
        "needs the same classes when it is loaded; load only what you trust",
    ),
    "cloudpickle": (
        "cloudpickle.dumps(model)",
        "takes functions and classes along; needs the same Python, load only what you trust",
    ),
}
