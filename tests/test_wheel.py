"""The wheel, as a stranger gets it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from conftest import ROOT

PROGRAM = """
import numpy as np, ml_dtypes, sys
import tensorferry as ferry
from tensorferry import tfio
array = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
assert (ferry.loads(ferry.dumps(array)) == array).all()
value = {"ragged": ferry.RaggedTensor.from_rows([[1, 2], [3]]), "text": "x", "none": None}
for format in ("structure", "json"):
    assert ferry.loads(ferry.dumps(value, format=format))["ragged"].to_list() == [[1, 2], [3]]
assert ferry.dumps(array, format="raw") == array.tobytes()
assert tfio.parse_tensor(tfio.serialize_tensor([1.5])).tolist() == [1.5]
try:
    ferry.loads(ferry.dumps(array), to="torch")
except ferry.MissingExtraError as error:
    assert "pip install 'tensorferry[torch]'" in str(error)
else:
    raise SystemExit("torch is not here")
try:
    ferry.loads(b"\\x08\\x01\\x12")
except ferry.TruncatedError as error:
    assert error.offset == 3
print(ferry.__file__)
"""

COMMANDS = """
import sys
import numpy as np
import tensorferry as ferry
from tensorferry.cli import main

def call(*arguments):
    try:
        code = main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    if code:
        raise SystemExit(f"ferry {' '.join(arguments)}: exit code {code}")

ferry.save({"a": np.ones((2, 3), np.float32), "b": np.arange(2)}, "t.ckpt")
with ferry.writer("r.tfrecord") as out:
    out.write({"id": 1, "text": "ja"})
for name in ("t.npz", "t.safetensors", "t.tfrecord"):
    call("convert", "t.ckpt", name, "--verify")
call("convert", "r.tfrecord", "r.npz", "--verify")
for command in ("info", "ls", "verify", "hash", "stats"):
    call(command, "t.ckpt", "r.tfrecord")
call("head", "r.tfrecord")
call("diff", "t.npz", "t.safetensors")
call("view", "t.ckpt", "--static", "page.html")
"""


def test_commands_in_an_empty_environment(empty_environment, tmp_path):
    """Commands need no extra for formats that need none."""
    ran = subprocess.run(
        [empty_environment, "-c", COMMANDS], capture_output=True, text=True, cwd=tmp_path
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_wheel_in_an_empty_environment(wheel, empty_environment):
    """The wheel installs with its base dependencies alone, and does its work."""
    python = empty_environment
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    lists = ("savedmodel/ops.txt", "keras/names.txt")
    assert {f"tensorferry/formats/{name}" for name in lists} <= packed
    page = ROOT / "src/tensorferry/viewer/page"
    assert {f"tensorferry/viewer/page/{file.name}" for file in page.iterdir()} <= packed

    listed = subprocess.run(
        [*pip, "--python", python, "list"], check=True, capture_output=True, text=True
    ).stdout
    used = subprocess.run(
        [python, "-c", PROGRAM], check=True, capture_output=True, text=True, cwd="/"
    )

    names = {line.split()[0] for line in listed.splitlines()[2:]}
    assert names == {
        "numpy",
        "ml_dtypes",
        "isal",
        "backports.zstd",
        "cramjam",
        "click",
        "tensorferry",
    }
    assert str(Path(python).parent.parent) in used.stdout
