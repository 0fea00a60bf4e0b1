"""Files of every format, and the command without a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import NAMES, Ran, columns

import tensorferry as ferry


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """A directory with a file of each of `NAMES`; those of several tensors hold the same."""
    folder = tmp_path_factory.mktemp("files")
    for name in NAMES:
        path = folder / name
        if ".tfrecord" in name:
            with ferry.writer(path, durable=False) as out:
                out.write_batch(columns())
        else:
            value = columns()["score"] if name.startswith("array") else columns()
            ferry.save(value, path, durable=False)
    return folder


@pytest.fixture
def call(capfd):
    """Runs the command in this process, which is quicker, and gives what it did."""
    from tensorferry import cli

    def run_here(*arguments: object) -> Ran:
        capfd.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run_here
