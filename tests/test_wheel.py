"""The wheel, as a stranger gets it."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile

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


def test_wheel_in_an_empty_environment(tmp_path):
    """The wheel installs with its base dependencies alone, and does its work."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), str(ROOT)]
    subprocess.run([*pip, "-q", *build], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    lists = ("savedmodel/ops.txt", "keras/names.txt")
    assert {f"tensorferry/formats/{name}" for name in lists} <= packed
    page = ROOT / "src/tensorferry/viewer/page"
    assert {f"tensorferry/viewer/page/{file.name}" for file in page.iterdir()} <= packed
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    python = str(tmp_path / "empty/bin/python")
    subprocess.run([*pip, "-q", "--python", python, "install", str(wheel)], check=True)

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
    assert str(tmp_path) in used.stdout
