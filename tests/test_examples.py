"""The examples run as they stand, as programs of their own."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT


def test_translation(tf, tmp_path):
    """A model is trained, and its predictions and itself are kept, read back and compared."""
    program = ROOT / "examples/translation/translation.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("✓") == 27
    assert "✗" not in done.stdout
    right, _, total = done.stdout.partition("s; ")[2].partition(" new")[0].partition(" of ")
    assert int(right) > 0.9 * int(total) > 50
