"""README and docs: every block of code runs in the environment that its page names."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import click
import pytest
from conftest import ROOT

from tensorferry.cli.application import application

# The repository, as pyproject.toml names it.
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
BLOB = f"{HOME}/blob/main/"
RAW = f"{HOME}/main/".replace("//github.com/", "//raw.githubusercontent.com/")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A page that needs no more than the package runs where nothing else is installed.
BASE = "pip install tensorferry"
# What an extra or a package brings, by the module that shows whether it is there.
MODULES = {
    "arrow": "pyarrow",
    "cloud": "obstore",
    "keras": "h5py",
    "grpcio": "grpc",
    "pillow": "PIL",
}


def program_of(page) -> str:
    """The Python blocks of a page, one after the other, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))


def need_of(page) -> str:
    """The command that installs what a page needs; README says it in its first block."""
    text = page.read_text()
    found = re.search(r"```sh\n(pip install .*?)\n|^\*Needs: `(.*?)`", text, re.MULTILINE)
    assert found, f"{page} does not say what it needs"
    return found[1] or found[2]


WITH_CODE = [page for page in PAGES if program_of(page)]
names = pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))


@names
def test_python_blocks(page, request, tmp_path, monkeypatch):
    """The code of a page runs in the environment that the page names."""
    need = need_of(page)
    program = tmp_path / "page.py"
    program.write_text(program_of(page))
    if need == BASE:
        python = request.getfixturevalue("empty_environment")
        done = subprocess.run(
            [python, str(program)], capture_output=True, text=True, cwd=tmp_path, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return
    for name in re.findall(r"[\w-]+", need.removeprefix("pip install")):
        if name != "tensorferry" and find_spec(MODULES.get(name, name)) is None:
            pytest.skip(f"needs {name}, which `make frameworks` installs")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program))


def command_lines() -> list[tuple[str, str]]:
    """The command lines in blocks of shell code, with their page; docs/cli.md is generated."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            name = str(page.relative_to(ROOT))
            found += [(name, line) for line in block.splitlines() if line.startswith("ferry ")]
    return [(name, line) for name, line in found if name != "docs/cli.md"]


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_lines(page, line):
    """A command line parses: the command exists and has these options."""
    name, *words = shlex.split(line, comments=True)[1:]
    command = application.get_command(click.Context(application), name)
    if command is None:  # `ferry FILE` is `ferry info FILE`
        name, words = "info", [name, *words]
        command = application.get_command(click.Context(application), name)

    assert command is not None
    command.make_context(name, words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    """Links inside the project lead somewhere, those to its repository too."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for target in re.findall(rf"\((?:{HOME}/(?:blob|tree)/main/|{RAW})([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_every_page_has_a_way_to_it():
    """The navigation of the site names every page, and no other."""
    named = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())

    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]]
    assert sorted(named) == sorted(pages)


def test_recipes_are_listed():
    """The list of recipes has every recipe under the question that is its title."""
    listed = (ROOT / "docs/recipes/index.md").read_text()

    for page in sorted((ROOT / "docs/recipes").glob("*.md")):
        if page.name != "index.md":
            title = page.read_text().splitlines()[0].removeprefix("# ")
            assert f"- [{title}]({page.name})" in listed


def test_charts():
    """The charts, and the list of what is slower, have the numbers of the measured tables."""
    drawing = runpy.run_path(str(ROOT / "benchmarks/charts.py"))

    for name, text in drawing["charts"]().items():
        assert (ROOT / "docs/images" / name).read_text() == text, "python benchmarks/charts.py"
    page = (ROOT / "docs/performance.md").read_text()
    assert drawing["opened"](page) == page, "python benchmarks/charts.py"


def test_links_of_the_package_index():
    """README is shown by package indexes, where only whole addresses lead somewhere."""
    relative = re.findall(r"\]\((?!https://)([^)]+)\)", (ROOT / "README.md").read_text())

    assert relative == [], f"write {BLOB}... for a page and {RAW}... for an image"


def test_demo(capsys, monkeypatch):
    """The demo runs, verifies every format, and imports no framework of its own."""
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    runpy.run_path(str(ROOT / "examples/demo.py"), run_name="__main__")
    shown = capsys.readouterr().out

    assert shown.count("✓ same bits") == 20
    assert "✗" not in shown
