"""What a release consists of: its metadata, its extras, its notes, and who builds it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata

from conftest import ROOT

import tensorferry as ferry
from tensorferry.formats.table import TABLE

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def test_one_version():
    """`__version__` is the only place that has the version, and the metadata is made of it."""
    text = (ROOT / "src/tensorferry/__init__.py").read_text()
    assert re.findall(r'^__version__ = "(.+)"', text, re.MULTILINE) == [ferry.__version__]
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert metadata("tensorferry")["Version"] == ferry.__version__


def test_metadata():
    """An index can show where the project lives, what it runs on and what it is about."""
    assert {"Homepage", "Documentation", "Changelog", "Issues", "Security"} <= {*PROJECT["urls"]}
    assert all(url.startswith(PROJECT["urls"]["Homepage"]) for url in PROJECT["urls"].values())
    shown = "\n".join(PROJECT["classifiers"])
    for wanted in ("3.11", "3.12", "3.13", "3.14", "Linux", "MacOS", "Windows", "Typed"):
        assert wanted in shown
    assert len(PROJECT["keywords"]) > 5
    assert PROJECT["authors"]


def test_extras():
    """Users find the extras that errors name, and no tools of those who work on tensorferry."""
    extras = PROJECT["optional-dependencies"]
    needed = {
        needs.name
        for facts in TABLE.values()
        for needs in (facts.read_needs, facts.write_needs)
        if needs
    }
    assert needed | {"cloud", "sql", "all", "tensorflow", "torch", "jax"} <= {*extras}
    assert not {"build", "test", "dev", "docs"} & {*extras}
    (own,) = (line for line in extras["all"] if line.startswith("tensorferry["))
    assert needed <= {*re.findall(r"\w+", own)}


def test_bounds_are_the_same_everywhere():
    """A package has one lowest version, in extras and in groups."""
    bounds: dict[str, set[str]] = {}
    lists = [
        PROJECT["dependencies"],
        *PROJECT["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    for line in (line for lines in lists for line in lines if isinstance(line, str)):
        found = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line)
        if found and found[1] != "tensorflow-cpu":  # older ones run; the tests need new ones
            bounds.setdefault(found[1], set()).add(found[2])

    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_stable_abi():
    """One wheel serves Python 3.12 and later: only objects.h looks into objects without a call."""
    assert PYPROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert "STABLE_ABI" in (ROOT / "CMakeLists.txt").read_text()
    macro = re.compile(
        r"\bPy[A-Z][a-z]\w*_[A-Z]{2,}\b|\bPyObject_Call(?:OneArg|MethodNoArgs|MethodOneArg)\b"
    )
    looking = {
        path.name: found
        for path in (ROOT / "native").glob("*.*")
        if (found := macro.findall(path.read_text()))
    }
    assert {*looking} == {"objects.h"}, looking


def test_changelog():
    """Each version has its changes by kind, each kind once, and the newest version is this one."""
    text = (ROOT / "CHANGELOG.md").read_text()
    parts = re.split(r"^## \[(.+)\].*$", text, flags=re.MULTILINE)[1:]
    versions = dict(zip(parts[::2], parts[1::2], strict=True))

    assert next(iter(versions)) == "Unreleased"
    assert ferry.__version__ in versions
    for version, changes in versions.items():
        kinds = re.findall(r"^### (.+)$", changes, re.MULTILINE)
        assert len(kinds) == len({*kinds}), version
        assert {*kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_workflows():
    """The workflows call targets and files of the project, and publishing needs no password."""
    makefile = (ROOT / "Makefile").read_text()
    texts = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
    assert {*texts} == {"test", "wheels", "benchmarks"}
    for text in texts.values():
        for target in re.findall(r"\bmake ([a-z-]+)", text):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        for path in re.findall(r"run: (?:(?:.venv/bin/)?python )?([\w./]+/[\w.]+)", text):
            assert (ROOT / path).exists(), path
        assert "permissions:\n  contents: read" in text
        assert "secrets." not in text
    assert "id-token: write" in texts["wheels"]
