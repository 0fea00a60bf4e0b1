"""The code in README and docs runs as it stands."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib

import pytest
from conftest import ROOT

# The repository, as pyproject.toml names it.
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
BLOB = f"{HOME}/blob/main/"
RAW = f"{HOME}/main/".replace("//github.com/", "//raw.githubusercontent.com/")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks(page, tmp_path, monkeypatch):
    """The Python blocks of a page, one after the other, as one program."""
    monkeypatch.chdir(tmp_path)
    program = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    (tmp_path / "page.py").write_text(program)
    runpy.run_path(str(tmp_path / "page.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    """Links inside the project lead somewhere."""
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
    for target in re.findall(rf"\]\((?:{BLOB}|{RAW})([^)#]+)\)", page.read_text()):
        assert (ROOT / target).exists(), target


def test_links_of_the_package_index():
    """README is shown by package indexes, where only whole addresses lead somewhere."""
    relative = re.findall(r"\]\((?!https://)([^)]+)\)", (ROOT / "README.md").read_text())

    assert relative == [], f"write {BLOB}... for a page and {RAW}... for an image"


def test_demo(capsys, monkeypatch):
    """The demo runs, verifies every format, and imports no framework of its own."""
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    runpy.run_path(str(ROOT / "examples/demo.py"), run_name="__main__")
    shown = capsys.readouterr().out

    assert shown.count("✓ same bits") == 19
    assert "✗" not in shown
