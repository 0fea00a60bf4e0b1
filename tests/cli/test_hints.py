"""Hints: each hint of the library names what exists, and works when it is typed."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

import tensorferry as ferry
from tensorferry.cli import hints as hints_module
from tensorferry.cli.application import COMMANDS, application
from tensorferry.cli.hints import Vocabulary, for_command
from tensorferry.files import keywords

SOURCE = Path(ferry.__file__).parent

# What no command calls: models in memory, training loops, services, and writers in Python.
PYTHON_ONLY = (
    "diagnosis",
    "feeds",
    "files/serializing.py",
    "files/finish.py",
    "files/metadata.py",
    "formats/json/bodies.py",
    "formats/json/typed.py",
    "formats/shares.py",
    "formats/tables/frames.py",
    "formats/tables/gather.py",
    "frameworks",
    "models",
    "ray",
    "serving",
    "tfio",
    "weights",
)
# Values that only Python can give, in modules that commands call.
OF_VALUES = (
    "pass its bytes: text.encode(errors='surrogatepass')",
    'expected as in "int8", ("int8", 0.01) or {"kind": "int8", "axis": 0}',
    "rows=False puts each of them whole into one row",
    "as in quantize={",
    "encoding='tensor' in the schema keeps any dtype",
    "make it one of strings in schema=, and use tensorferry.loads on each",
    "make it optional in schema=",
    "write one row with write()",
    "use its to_dense()",
    "use array.filled(...) or a SparseTensor",
    'use open(path, "rb")',
    "raise tensorferry.storage.remote.settings.part_size",
    'name each of them, as in a dict, or use format="structure"',
    "dump them: one of strings",
    "store the counts: array.view('int64')",
)
# Names of other packages' parameters.
FOREIGN = {"allow_pickle", "errors", "n_batch", "n_dense", "weights_only", "KERAS_BACKEND"}

ANY = "X"

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def _texts(node: ast.expr | None, module: ast.Module) -> Iterator[str]:
    """The texts that an expression of a hint may have, with X for what is only known later."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [[ANY] if isinstance(v, ast.FormattedValue) and not isinstance(v.value, ast.Name)
                 else [*_texts(v if isinstance(v, ast.Constant) else v.value, module)] or [ANY]
                 for v in node.values]  # fmt: skip
        yield "".join(part[0] for part in parts)
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, module)
        yield from _texts(node.orelse, module)
    elif isinstance(node, ast.BinOp):
        yield from _texts(node.left, module)
    elif isinstance(node, ast.Name):
        for other in ast.walk(module):
            targets = other.targets if isinstance(other, ast.Assign) else ()
            if any(isinstance(one, ast.Name) and one.id == node.id for one in targets):
                yield from _texts(other.value, module)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for other in ast.walk(module):
            if isinstance(other, ast.FunctionDef) and other.name == node.func.id:
                for inner in ast.walk(other):
                    if isinstance(inner, ast.Return):
                        yield from _texts(inner.value, module)


def hints() -> list[tuple[str, str]]:
    """Each hint in the sources: its module, and its text."""
    found: dict[tuple[str, str], None] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        module = ast.parse(path.read_text())
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                given = [one.value for one in node.keywords if one.arg == "hint"]
                if isinstance(node.func, ast.Name) and node.func.id == "Stranger":
                    given.append(node.args[1])
                for value in given:
                    found.update({(name, text): None for text in _texts(value, module)})
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                _, mark, text = node.value.partition("\nhint: ")
                if mark and name.startswith("cli/") and text:
                    found[name, text] = None
    return list(found)


HINTS = hints()


def _commands() -> dict[str, click.Command]:
    context = click.Context(application, info_name="ferry")
    found = {name: application.get_command(context, name) for name in COMMANDS}
    return {name: command for name, command in found.items() if command is not None}


def _options(command: click.Command) -> list[str]:
    return [option for param in command.params for option in param.opts]


def test_hints_are_found():
    """The list is the library's: it is long, and has hints of all forms."""
    texts = {text for _, text in HINTS}

    assert len(texts) > 300
    assert "as in 0.9,0.1" in texts
    assert "`ferry repair X OUT` keeps every whole record" in texts
    assert any(text.startswith("read it with torch.load(") for text in texts)
    assert any(text.startswith("pass a schema= that fits, infer='all'") for text in texts)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_in_hints(name, monkeypatch):
    """In the words of each command: every command line parses, and every option is its own."""
    commands = _commands()
    monkeypatch.setattr("tensorferry.cli.hints.VOCABULARY", Vocabulary())
    of_convert = _options(commands["convert"])
    hints_module.VOCABULARY.begin(_options(commands[name]), lambda: of_convert)
    wrong = []
    for module, text in HINTS:
        own = {"operations/edit.py": "edit"}.get(module, name)
        if module.startswith((*PYTHON_ONLY, "cli/")) or text.startswith(OF_VALUES):
            continue
        if own == name:
            hint = for_command(text, "some file") or ""
            wrong += [(module, hint, what) for what in _wrong(hint, name, commands)]

    assert not wrong


def test_own_hints_of_commands():
    """Hints that commands have themselves name options and commands that there are."""
    commands = _commands()
    every = {option for command in commands.values() for option in _options(command)}
    for module, text in HINTS:
        if module.startswith("cli/"):
            assert set(OPTION.findall(text)) <= {*every, "--help", "--debug"}, text
            assert all(line in COMMANDS for line in re.findall(r"`ferry ([^`]+)`", text)), text


def _wrong(hint: str, name: str, commands: dict[str, click.Command]) -> Iterator[str]:
    """What would not work if it were typed."""
    for line in re.findall(r"`ferry ([^`]+)`", hint):
        words = shlex.split(line.replace(" ... ", " QUERY "))
        if len(words) > 1:  # else it is the name of a command
            try:
                commands[words[0]].make_context(words[0], words[1:])
            except click.ClickException as error:
                yield error.format_message()
    elsewhere = re.findall(r"(--[a-z-]+) of `ferry (\w+)`", hint)
    yield from (option for option, other in elsewhere if option not in _options(commands[other]))
    rest = re.sub(r"--[a-z-]+ of `ferry \w+`", "", hint)
    rest = re.sub(r"`([^`]*)`", lambda found: found[1] if found[1].startswith("--") else "", rest)
    known = {*_options(commands[name]), "--ultra", "--upgrade"}  # those of zstd and pip
    yield from (option for option in OPTION.findall(rest) if option not in known)
    of_formats = keywords.Opening.__annotations__
    yield from (pair for pair in re.findall(r"--option (\w+)=", hint) if pair not in of_formats)
    rest = re.sub(r"--(option|limit|rename|quantize) ('[^']*'|[^ `]+)", "", rest)
    of_python = set(re.findall(r"\b([A-Za-z_]+)=(?!=)", rest)) - FOREIGN - {"old", "kernel"}
    yield from of_python
    yield from re.findall(r"tensorferry\.\w+", rest)


def _arguments(module: str) -> set[str]:
    """The parameters of all functions of a module, which is not imported."""
    tree = ast.parse((SOURCE / module).read_text())
    functions = [node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {one.arg for given in functions for one in (*given.args, *given.kwonlyargs)}


def _parameters() -> set[str]:
    """The parameters of everything public, and of the methods of what is public."""
    # Their modules are imported with a framework, which may not be here.
    found = (
        _arguments("feeds/torch.py") | _arguments("ray/reading.py") | _arguments("ray/writing.py")
    )
    subjects = ("feeds", "weights", "serving", "tfio", "rows.schema", "files.keywords")
    modules = [ferry, *(importlib.import_module(f"tensorferry.{name}") for name in subjects)]
    things = [getattr(one, name) for one in modules for name in getattr(one, "__all__", dir(one))]
    for thing in things:
        if inspect.isclass(thing):
            found |= set(getattr(thing, "__annotations__", {}))
            functions = [one for one in vars(thing).values() if inspect.isfunction(one)]
        else:
            functions = [thing] if callable(thing) else []
        for function in functions:
            try:
                found |= set(inspect.signature(function).parameters)
            except ValueError:
                continue
    return found


def test_python_in_hints():
    """Every name of ours in a hint exists, and every keyword is a parameter of something public."""
    parameters = _parameters() | FOREIGN
    wrong = []
    for module, text in HINTS:
        if module.startswith("cli/"):
            continue
        for dotted in re.findall(r"\b(?:tensorferry|ferry)((?:\.[a-z_]\w*)+)", text):
            thing = ferry
            for part in dotted[1:].split("."):
                if not hasattr(thing, part):
                    try:
                        thing = importlib.import_module(f"{thing.__name__}.{part}")
                    except (ImportError, AttributeError):
                        wrong.append((module, text, dotted))
                        break
                else:
                    thing = getattr(thing, part)
        plain = re.sub(r"`[^`]*`|--[a-z]+ \S+|[\w/]+=[\w/]+\.npy", "", text)
        for name in re.findall(r"(?<![\w\"{])([A-Za-z_][\w]*)=(?!=)", plain):
            if name not in parameters and not text.startswith('expected "old=new"'):
                wrong.append((module, text, name))

    assert not wrong


def test_quantizing_as_the_hint_says(call, tmp_path):
    """The words of a hint with quotes and braces in it work when they are typed."""
    ferry.save({"w": np.array([1, np.nan, 3], np.float32)}, tmp_path / "a.npz", durable=False)
    line = ["convert", tmp_path / "a.npz", tmp_path / "b.npz", "--quantize"]
    ran = call(*line, "int8")
    option, value = shlex.split(re.search(r"--quantize '[^']*'", ran.err)[0])

    assert ran.code == 2
    assert call(*line[:-1], option, value).code == 0
    assert call(*line[:-1], option, "{").code == 2
