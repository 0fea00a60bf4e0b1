"""The house: what holds for every module, read from the sources themselves."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

import tensorferry as ferry

SOURCES = sorted((ROOT / "src/tensorferry").rglob("*.py"))

# The face of the package fetches its names from their homes when they are first used.
LAZY = {"src/tensorferry/__init__.py", "src/tensorferry/ray/__init__.py"}

# Where keywords are no options: the fields of a message, and the arguments of a user's model.
NAMED_BY_OTHERS = {
    "src/tensorferry/codecs/protobuf.py encode",
    "src/tensorferry/models/loaded.py __call__",
    "src/tensorferry/frameworks/tensorflow/signatures.py flat",
}


def name_of(path):
    """A source as errors name it."""
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees():
    """The syntax tree of every module."""
    return {path: ast.parse(path.read_text()) for path in SOURCES}


def own_modules(tree):
    """The names by which a module knows others of ours."""
    known = {
        "tensorferry." + str(path.relative_to(ROOT / "src/tensorferry"))[:-3].replace("/", ".")
        for path in SOURCES
    }
    known = {name.removesuffix(".__init__") for name in known}
    found = {"module"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorferry"):
            found |= {
                alias.asname or alias.name
                for alias in node.names
                if f"{node.module}.{alias.name}" in known
            }
    return found


def test_modules_are_not_asked_what_they_have(trees):
    """Nobody asks a module of ours by `hasattr` or `getattr` what it is: types say it."""
    asked = []
    for path, tree in trees.items():
        modules = own_modules(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("hasattr", "getattr")
                and isinstance(node.args[0], ast.Name | ast.Call)
            ):
                first = node.args[0]
                is_module = isinstance(first, ast.Name) and first.id in modules
                is_import = isinstance(first, ast.Call) and "import_module" in ast.dump(first.func)
                if (is_module or is_import) and name_of(path) not in LAZY:
                    asked.append(f"{name_of(path)}:{node.lineno}")

    assert asked == []


def test_options_have_types(trees):
    """No function takes `**options: Any`: what a format does not have is refused by its types."""
    blind = []
    for path, tree in trees.items():
        if "/cli/" in name_of(path):  # click calls commands with the options that they declare
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None:
                annotation = node.args.kwarg.annotation
                is_blind = annotation is None or ast.unparse(annotation) == "Any"
                if is_blind and f"{name_of(path)} {node.name}" not in NAMED_BY_OTHERS:
                    blind.append(f"{name_of(path)}:{node.lineno} {node.name}")

    assert blind == []


def imports_of(tree, known):
    """The modules of ours that a module imports anywhere, but for types alone."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module for name in names}
        found |= imports_of(node, known)
    return found & known


def test_no_module_imports_itself_in_a_circle(trees):
    """Imports have no circles, those inside of functions included."""
    names = {path: ".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in trees}
    names = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known = set(names.values())
    graph = {names[path]: imports_of(tree, known) - {names[path]} for path, tree in trees.items()}
    while graph:
        free = {name for name, imported in graph.items() if not imported}
        if not free:
            break
        graph = {name: imported - free for name, imported in graph.items() if name not in free}

    # What is left is in a circle, or imports something that is.
    assert {name: sorted(imported) for name, imported in graph.items()} == {}


def test_formats_are_listed_once(trees):
    """Only the table and the formats themselves spell suffixes of formats with a meaning."""
    from tensorferry.formats.table import TABLE

    suffixes = {suffix for facts in TABLE.values() for suffix in facts.suffixes}
    # Suffixes that stand for something else as well.
    suffixes -= {".json", ".pb", ".h5", ".bin", ".raw"}
    spelled = []
    for path, tree in trees.items():
        name = name_of(path)
        # An archive of Keras is a model, too: what saves and loads models knows its name.
        if name.split("/")[2] in ("formats", "models", "weights", "diagnosis"):
            continue
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        spelled += [
            f"{name}:{node.lineno} {node.value!r}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in suffixes and id(node) not in docs
        ]

    assert spelled == []


def imported(code):
    """The modules that a fresh interpreter has loaded after some code."""
    code = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


def formats_in(modules):
    """The formats among some modules, by name."""
    shared = {
        "contract", "table", "signatures", "strangers", "detect", "arrays", "wholes", "tables",
    }  # fmt: skip
    prefix = "tensorferry.formats."
    names = {name[len(prefix) :].partition(".")[0] for name in modules if name.startswith(prefix)}
    return names - shared


def test_loading_imports_one_format(tmp_path):
    """A safetensors file is saved and loaded without any other format."""
    path = str(tmp_path / "x.safetensors")
    ferry.save({"a": np.ones(3, np.float32)}, path)

    loaded = imported(f"import tensorferry as ferry; ferry.load({path!r})")
    saved = imported(
        f"import tensorferry as ferry, numpy as np; ferry.save({{'a': np.ones(3)}}, {path!r})"
    )

    assert formats_in(loaded) == {"safetensors"}
    assert formats_in(saved) == {"safetensors"}


def test_recognising_imports_no_format(tmp_path):
    """To know what a file is, no format has to be loaded."""
    path = str(tmp_path / "x.npz")
    np.savez(path, a=np.ones(3))
    modules = imported(
        "from tensorferry.formats.detect import detect\n"
        "from tensorferry.storage.place import Place\n"
        f"assert detect(Place({path!r})).format == 'npz'"
    )

    assert formats_in(modules) == set()
    assert "numpy" not in modules


def test_nothing_is_unpickled_or_evaluated(trees):
    """No module loads pickles or bytecode or evaluates text; diagnosis only writes pickles.

    `classes` compiles what it writes itself, as `dataclasses` does: the `__init__` and `__new__` of
    our classes.
    """
    loaders = {"marshal", "shelve", "dill", "joblib", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__"}
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            where = f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = {alias.name.partition(".")[0] for alias in node.names}
                named |= {(getattr(node, "module", None) or "").partition(".")[0]}
                allowed = set() if "diagnosis" not in where else {"pickle"}
                found += [
                    f"{where} imports {name}" for name in named & {*loaders, "pickle"} - allowed
                ]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                allowed = {"exec"} if name_of(path) == "src/tensorferry/classes.py" else set()
                found += [f"{where} calls {node.func.id}"] * (node.func.id in calls - allowed)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                loading = node.value.id == "pickle" and node.attr in {"load", "loads", "Unpickler"}
                found += [f"{where} uses pickle.{node.attr}"] * loading
    assert found == []
