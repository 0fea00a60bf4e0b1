"""Assets that lead elsewhere: reported, never opened."""

from __future__ import annotations

import os

import pytest
from savedmodels import encode, field, read, refused

import tensorferry as ferry
from tensorferry import errors
from tensorferry.formats.savedmodel import model as savedmodel


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "..",
        "a\\\\..\\\\b",
        "C:x",
        "s3://b/k",
        "",
        "a/",
    ],
)
def test_assets_that_lead_elsewhere(tmp_path, name):
    """They are reported with what is wrong, not looked at, and refused when they are opened."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "model/assets/a").mkdir(parents=True)
    data = encode(f'meta_graphs {{ asset_file_def {{ filename: "{name}" }} }}')
    (asset, *_) = read(data, tmp_path / "model").assets

    assert asset.problem
    assert asset.size is None
    info = ferry.inspect(tmp_path / "model")
    assert asset.problem in info.problems[0].problem
    assert not [file for file in info.files if "secret" in file]
    with pytest.raises(errors.FormatError, match="asset"):
        savedmodel.read(tmp_path / "model").open_asset(asset.name)


def test_assets_that_are_links(tmp_path):
    """A link out of the model is reported, be it the file or a directory; others are fine."""
    (tmp_path / "secret").write_text("secret")
    top = tmp_path / "model/assets"
    top.mkdir(parents=True)
    (top / "real").write_text("abc")
    os.symlink(tmp_path / "secret", top / "file")
    os.symlink(tmp_path, top / "directory")
    os.symlink("real", top / "inside")
    os.symlink("nothing", top / "broken")
    os.mkfifo(top / "pipe")
    names = ("real", "file", "directory/secret", "inside", "broken", "pipe")
    defined = "".join(f'asset_file_def {{ filename: "{name}" }}' for name in names)
    model = read(encode(f"meta_graphs {{ {defined} }}"), tmp_path / "model")
    found = {asset.name: (asset.size, asset.problem) for asset in model.assets}

    assert found == {
        "real": (3, None),
        "file": (None, "it is a link that leads out of the model"),
        "directory/secret": (None, "it is a link that leads out of the model"),
        "inside": (3, None),
        "broken": (None, "there is no such file"),
        "pipe": (None, "it is no regular file"),
    }
    info = ferry.inspect(tmp_path / "model")
    assert len(info.problems) == 4
    assert {os.path.basename(file) for file in info.files} == {"saved_model.pb", "real", "inside"}


def test_more_assets_than_any_model_has(tmp_path):
    """A file is looked for once for each asset, so their number is bounded."""
    assets = b"".join(field(6, field(2, b"%x" % number)) for number in range(20_000))

    refused(field(2, assets), tmp_path, errors.LimitError, "assets")
