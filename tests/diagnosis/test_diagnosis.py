"""Diagnosis of Python objects; the picklers themselves decide what is true."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import ctypes
import dataclasses
import io
import pickle
import queue
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
import types
import weakref
import zlib
from functools import partial

import cloudpickle
import numpy as np
import pytest
from conftest import ROOT

import tensorferry as ferry
from tensorferry.diagnosis import object_walk, report as reports

# What is left open here is closed when it is collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

DUMPS = {"pickle": pickle.dumps, "cloudpickle": cloudpickle.dumps}


class Tokenizer:
    """Something with a part that a test puts in."""

    def __init__(self, part=None):
        self.part = part
        self.words = {"a": 1}


class Encoder:
    def __init__(self, part=None):
        self.layers = [np.ones(2), np.ones(3), Tokenizer(part)]


class Model:
    """What is in the way lies at `model.encoder.layers[2].part`."""

    def __init__(self, part=None):
        self.encoder = Encoder(part)
        self.rate = 0.5


class Raising:
    def __reduce__(self):
        raise ValueError("never")


class Slotted:
    __slots__ = ("__lock", "number", "unset")

    def __init__(self):
        self.number = 1
        self.__lock = threading.Lock()


class Careful:
    """Leaves its lock out."""

    def __init__(self):
        self.lock = threading.Lock()
        self.number = 1

    def __getstate__(self):
        return {"number": self.number}


class Unfolding:
    """Reduces to something that it makes on the way, without an end."""

    def __init__(self, number=0):
        self.number = number

    def __reduce__(self):
        return Unfolding, (Unfolding(self.number + 1),)


class Circular:
    """Is an argument of its own constructor, which no pickler can do."""

    def __init__(self, child=None):
        self.child = child

    def __reduce__(self):
        return Circular, (self.child,)


def unfolding():
    return Unfolding()


def circular():
    found = Circular()
    found.child = (found,)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Data:
    held: object


def local_data():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Local:
        held: object

    return Local(threading.Lock())


class Liar:
    """Says that it is a list."""

    @property
    def __class__(self):
        return list


class Hostile:
    """Has no attribute that could be asked for."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


def local_class():
    class Local:
        pass

    return Local()


def local_class_with_lock():
    class Local:
        lock = threading.Lock()

    return Local()


def closure():
    lock = threading.Lock()

    def function(x):
        with lock:
            return x

    return function


def open_file(mode):
    return lambda: open("/dev/null", mode)


def sleeping():
    async def sleep():
        await asyncio.sleep(0)

    found = sleep()
    found.close()
    return found


AT = "model.encoder.layers[2].part"
BOTH = {"pickle", "cloudpickle"}

# What is in the way, what to add to `AT`, and for which picklers.
TROUBLES = {
    "lambda": (lambda: lambda x: x, "", {"pickle"}),
    "local function": (lambda: closure, "", set()),
    "closure": (closure, ".__closure__[0].cell_contents", {"cloudpickle"}),
    "closure itself": (closure, "", {"pickle"}),
    "generator": (lambda: (number for number in range(3)), "", BOTH),
    "lock": (threading.Lock, "", BOTH),
    "reentrant lock": (threading.RLock, "", BOTH),
    "thread": (threading.Thread, "", BOTH),
    "thread's own": (threading.local, "", BOTH),
    "event": (threading.Event, "", BOTH),
    "queue": (queue.Queue, "", BOTH),
    "socket": (socket.socket, "", BOTH),
    "text file": (open_file("w"), "", BOTH),
    "text file to read": (open_file("r"), "", {"pickle"}),
    "binary file": (open_file("rb"), "", BOTH),
    "local class": (local_class, "", {"pickle"}),
    "class with a lock": (local_class_with_lock, "", {"pickle"}),
    "the lock of a class": (local_class_with_lock, "type({}).lock", {"cloudpickle"}),
    "database": (lambda: sqlite3.connect(":memory:"), "", BOTH),
    "compressor": (zlib.compressobj, "", BOTH),
    "pointer": (lambda: ctypes.pointer(ctypes.c_int(1)), "", BOTH),
    "scanner": (lambda: re.compile("a").scanner("aaa"), "", BOTH),
    "module": (lambda: re, "", {"pickle"}),
    "weak reference": (lambda: weakref.ref(TROUBLES_KEEP), "", BOTH),
    "weak dict": (weakref.WeakValueDictionary, "", BOTH),
    "context variable": (lambda: contextvars.ContextVar("x"), "", BOTH),
    "event loop": (asyncio.new_event_loop, "", BOTH),
    "coroutine": (sleeping, "", BOTH),
    "raising": (Raising, "", BOTH),
    "slots": (Slotted, "._Slotted__lock", BOTH),
    "method": (lambda: threading.Lock().acquire, ".__self__", BOTH),
    "own method": (lambda: Tokenizer(threading.Lock()).__init__, ".__self__.part", BOTH),
    "partial": (lambda: partial(print, threading.Lock()), ".args[0]", BOTH),
    "partial by name": (lambda: partial(print, end=threading.Lock()), ".keywords['end']", BOTH),
    "array of objects": (lambda: np.array([[1, threading.Lock()]], object), "[0, 1]", BOTH),
    "dict": (lambda: {"a": {7: threading.Lock()}}, "['a'][7]", BOTH),
    "key": (lambda: {(1, threading.Lock()): 2}, "list({})[0][1]", BOTH),
    "set": (lambda: {Raising()}, "list({})[0]", BOTH),
    "deque": (lambda: collections.deque([1, threading.Lock()]), "[1]", BOTH),
    "namedtuple": (
        lambda: types.SimpleNamespace(a=(threading.Lock(),)),
        ".a[0]",
        BOTH,
    ),
    "default dict": (
        lambda: collections.defaultdict(lambda: 1),
        ".default_factory",
        {"pickle"},
    ),
    "data class": (lambda: Data(threading.Lock()), ".held", BOTH),
    "local data class": (local_data, ".held", BOTH),
    "user's dict": (
        lambda: collections.UserDict(a=threading.Lock()),
        ".data['a']",
        BOTH,
    ),
    "liar": (Liar, "", set()),
    "stream": (io.StringIO, "", set()),
    "regular expression": (lambda: re.compile("a"), "", set()),
    "careful": (Careful, "", set()),
}
TROUBLES_KEEP = Tokenizer()


@pytest.mark.parametrize("way", DUMPS)
@pytest.mark.parametrize("name", TROUBLES)
def test_troubles(name, way):
    """The attribute that is named is the one, and the pickler refuses exactly what we say."""
    make, step, ways = TROUBLES[name]
    model = Model(make())
    report = ferry.diagnose(model)
    path = step.replace("{}", AT) if "{}" in step else AT + step
    blamed = [row for row in report.troubles if row.reasons.keys() & DUMPS.keys()]

    if way in ways:
        assert path in [row.path for row in blamed if way in row.reasons]
        assert report[path].verdicts[way] == "fails"
        assert report[path].cure
        assert report["model.encoder"].verdicts[way] == "fails"
    else:
        assert path not in [row.path for row in blamed if way in row.reasons]
    assert_true(model, report, way)


def assert_true(model, report, way):
    """What the report says of a pickler is what the pickler does."""
    for row in report.troubles:
        held = eval(row.path, {"model": model})
        if way in row.reasons and row.path != "model":
            with pytest.raises(Exception):  # noqa: B017, PT011
                DUMPS[way](held)
    if report.ways[way].verdict == "fails":
        with pytest.raises(Exception):  # noqa: B017, PT011
            DUMPS[way](model)
        assert [row for row in report.troubles if way in row.reasons]
    else:
        assert report.ways[way].verdict == "keeps"
        DUMPS[way](model)


@pytest.mark.parametrize("name", [name for name in TROUBLES if TROUBLES[name][2] == BOTH])
def test_without_what_is_blamed(name):
    """Without what is blamed, the rest pickles: nothing else was in the way."""
    model = Model(TROUBLES[name][0]())
    for row in ferry.diagnose(model).troubles:
        assert row.path.startswith(AT) or AT in row.path
    model.encoder.layers[2].part = None
    report = ferry.diagnose(model)

    assert not report.troubles
    assert report.ways["pickle"].verdict == report.ways["cloudpickle"].verdict == "keeps"
    pickle.dumps(model)


def test_all_at_once():
    """Every trouble is named, not only the first one that the pickler meets."""
    model = Model({name: make() for name, (make, step, ways) in TROUBLES.items() if ways})
    report = ferry.diagnose(model)
    blamed = {row.path for row in report.troubles if "pickle" in row.reasons}

    for name, (_, step, ways) in TROUBLES.items():
        if "pickle" in ways:
            start = f"{AT}[{name!r}]"
            assert (step.replace("{}", start) if "{}" in step else start + step) in blamed


def test_circles():
    """Circles end the walk, are told, and are no trouble to picklers."""
    model = Model()
    model.encoder.parent = model
    model.items = [model.encoder]
    model.items.append(model.items)
    report = ferry.diagnose(model)

    assert pickle.loads(pickle.dumps(model)).encoder.parent is not None
    assert report.ways["pickle"].verdict == report.ways["cloudpickle"].verdict == "keeps"
    assert not report.troubles
    assert any("model.encoder.parent is model again" in note for note in report.notes)
    assert any("model.items[1] is model.items again" in note for note in report.notes)


@pytest.mark.parametrize("make", [unfolding, circular])
def test_endless(make):
    """What pickles never end on is named; the diagnosis ends."""
    model = Model(make())
    report = ferry.diagnose(model)

    for way in DUMPS:
        assert report.ways[way].verdict == "fails"
        with pytest.raises((RecursionError, pickle.PicklingError)):
            DUMPS[way](model)
    assert any(row.path.startswith("model.encoder") for row in report.troubles)


def test_nesting():
    """What nests deeper than a pickler goes is blamed on the attribute that does."""
    model = Model()
    model.fine, model.deep = [[[]]], []
    for _ in range(5000):
        model.deep = [model.deep]
    report = ferry.diagnose(model)

    assert [row.path for row in report.troubles] == ["model.deep"]
    assert report["model.fine"].verdicts["pickle"] == "keeps"
    with pytest.raises(RecursionError):
        pickle.dumps(model)


def test_left_out():
    """What __getstate__ leaves out is left out, and no trouble."""
    model = Careful()
    report = ferry.diagnose(model)

    assert report["model.lock"].verdicts["pickle"] == "drops"
    assert report["model.number"].verdicts["pickle"] == "keeps"
    assert vars(pickle.loads(pickle.dumps(model))) == {"number": 1}


def test_nothing_is_run():
    """Properties, __getattr__ and calls are not made, and the object stays as it is."""

    class Touchy:
        def __init__(self):
            self.number = 1
            self.weights = np.ones(2)

        @property
        def broken(self):
            raise AssertionError("a property was asked")

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            raise AssertionError(f"{name} was asked")

        def __call__(self):
            raise AssertionError("it was called")

        def __len__(self):
            raise AssertionError("its length was asked")

        def __eq__(self, other):
            raise AssertionError("it was compared")

        __hash__ = object.__hash__

    model = Touchy()
    before = dict(vars(model))
    ferry.diagnose([model, model])
    ferry.diagnose(model)

    assert vars(model) == before


def test_large():
    """A gigabyte of arrays takes neither memory nor time."""
    model = Model(threading.Lock())
    model.arrays = [np.zeros(1 << 25) for _ in range(4)]
    model.text = b"\0" * (1 << 26)
    tracemalloc.start()
    start = time.process_time()
    report = ferry.diagnose(model)
    seconds = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert report[AT].verdicts["pickle"] == "fails"
    assert report["model.arrays"].verdicts["pickle"] == "keeps"
    assert peak < 20e6
    assert seconds < 2


def test_many(monkeypatch):
    """Of very many objects the first are looked at, which the report says; it still ends."""
    monkeypatch.setattr(object_walk, "OBJECTS", 1000)
    model = Model()
    model.many = [[number] for number in range(5000)]
    model.many.append(threading.Lock())
    report = ferry.diagnose(model)

    assert report.ways["pickle"].verdict == "fails"
    assert any("objects in it were looked at" in note for note in report.notes)


def test_impatience(monkeypatch):
    """What takes too long to pickle is not judged as a whole, and not called kept."""
    monkeypatch.setattr("tensorferry.diagnosis.pickling.PATIENCE", 0.0)
    report = ferry.diagnose({"a": [str(number) for number in range(50_000)]})

    assert report.ways["pickle"].verdict == "unjudged"
    assert "not all of it was tried" in report.ways["pickle"].reason


def test_main():
    """A class of a program pickles by a name that other programs lack: the report says so."""
    code = """
import pickle
import tensorferry as ferry
class Net:
    pass
report = ferry.diagnose(Net())
assert report.ways["pickle"].verdict == "keeps"
print("\\n".join(report.notes))
import sys
sys.stdout.flush()
sys.stdout.buffer.write(b"---" + pickle.dumps(Net()))
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    notes, _, pickled = shown.partition(b"---")

    assert b"Net in __main__" in notes
    with pytest.raises(AttributeError):
        pickle.loads(pickled)


def test_without_cloudpickle(monkeypatch):
    """Where cloudpickle is not installed, it is not judged, and nothing else changes."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    report = ferry.diagnose(Model(threading.Lock()))

    assert report.ways["cloudpickle"].verdict == "unjudged"
    assert report[AT].verdicts == {
        "pickle": "fails",
        "cloudpickle": "unjudged",
        "savedmodel": "inapplicable",
        "keras": "inapplicable",
        "weights": "drops",
    }
    assert any("pip install cloudpickle" in note for note in report.notes)


def test_without_frameworks():
    """Python objects are diagnosed without importing a framework."""
    code = """
import sys, numpy as np, threading, types
import tensorferry as ferry
print(ferry.diagnose(types.SimpleNamespace(w=np.ones(2), lock=threading.Lock())))
assert not {"tensorflow", "keras", "torch", "jax"} & set(sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert "model.lock" in shown.stdout


@pytest.mark.parametrize("name", TROUBLES)
def test_text(name):
    """The page fits 80 columns, and names every attribute in the way in full."""
    model = Model(TROUBLES[name][0]())
    model.a_name_that_is_far_longer_than_any_column = Model(lambda: 1)
    report = ferry.diagnose(model)
    text = str(report)

    assert max(map(len, text.splitlines())) <= 80
    squeezed = "".join(text.split())
    for row in report.troubles:
        assert "".join(row.path.split()) in squeezed


def test_page():
    """The page as a whole."""
    model = Model(threading.Lock())
    model.decode = partial(print)
    text = str(ferry.diagnose(model))

    assert text.startswith("tests.Model: kept by weights; refused by pickle and cloudpickle\n")
    assert "                               pickle  cloudpickle  SavedModel  .keras  weights" in text
    assert "the whole                        ✗          ✗           –         –        ✓" in text  # noqa: RUF001
    assert "pickle, cloudpickle: TypeError: cannot pickle '_thread.lock' object" in text
    assert '1. ferry.save_weights(model, "model.safetensors")' in text


def test_advice():
    """What works comes in order; a way that fails is none."""
    assert [one.way for one in ferry.diagnose(Model()).advice] == [
        "weights",
        "pickle",
        "cloudpickle",
    ]
    assert [one.way for one in ferry.diagnose(Model(lambda: 1)).advice] == [
        "weights",
        "cloudpickle",
    ]
    assert not ferry.diagnose([threading.Lock()]).advice


@pytest.mark.parametrize("value", [1, None, "a", [], {}, np.ones(2), Model, re, print])
def test_anything(value):
    """Whatever is diagnosed, there is a report that prints and is true."""
    report = ferry.diagnose(value)

    assert str(report)
    for way in DUMPS:
        assert_true(value, report, way)


def test_hostile():
    """An object that refuses everything is refused by the picklers, and reported."""
    for value in (Hostile(), [Hostile()], Model(Hostile())):
        report = ferry.diagnose(value)
        for way, dumps in DUMPS.items():
            with pytest.raises(RuntimeError):
                dumps(value)
            assert report.ways[way].verdict == "fails"
        assert str(report)


def test_report_is_data():
    """A report is frozen, and pickles."""
    report = ferry.diagnose(Model(threading.Lock()))

    assert pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(AttributeError):
        report.type = "other"
    with pytest.raises(KeyError):
        report["model.other"]
    assert tuple(report.ways) == reports.WAYS


STANDARD = (threading, socket, asyncio, re, io, queue, sqlite3, types, weakref, collections, zlib)


# Iterators pickle until Python 3.14, with a warning that the tests make an error in our modules.
@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support")
@pytest.mark.parametrize("module", STANDARD, ids=lambda module: module.__name__)
def test_standard_modules(module):
    """Of whatever lies around in a module, the report says what the picklers do."""
    for value in list(vars(module).values()):
        report = ferry.diagnose([value])
        for way, dumps in DUMPS.items():
            try:
                dumps([value])
                found = "keeps"
            except Exception:
                found = "fails"
            assert report.ways[way].verdict == found, value


def test_documented(tmp_path):
    """The page in the documentation is what is printed."""
    text = (ROOT / "docs/diagnose.md").read_text()
    code, shown = (
        re.search(f"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("python", "text")
    )
    (tmp_path / "translator.py").write_text(code)
    command = [sys.executable, "-c", "import translator"]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)

    assert run.stdout == shown
