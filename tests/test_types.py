"""Types that users see: their programs are checked against ours, and typos are errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PROGRAM = ROOT / "tests/typed_program.py"


def check(path: Path) -> str:
    """What mypy --strict says about a program."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    run = subprocess.run([*command, str(path)], capture_output=True, text=True, cwd=ROOT)
    return "\n".join(line for line in run.stdout.splitlines() if path.name in line)


def test_a_program_is_typed():
    """Bundles, rows, batches and reports have types: mypy --strict finds nothing."""
    assert check(PROGRAM) == ""


def test_the_program_runs(tmp_path):
    """It is no dead text."""
    run = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("ferry.verify(", "ferry.verfy("),
        ('compression="deflate")', 'compresion="deflate")'),
        ('on_error="raise"', 'on_error="rise"'),
        ("columns=[", "colums=["),
        ("report.sound", "report.sounds"),
        ("saved.nbytes", "saved.bytes"),
        ("rows.batches(2)", "rows.batch(2)"),
    ],
)
def test_typos_are_errors(tmp_path, right, wrong):
    """A misspelled function, option, choice, field or method is found before the program runs."""
    text = PROGRAM.read_text()
    assert right in text
    path = tmp_path / "program.py"
    path.write_text(text.replace(right, wrong))

    assert "error:" in check(path)
