"""The cache of a machine: objects are fetched once, and only what is whole and current is used."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import storage
from tensorferry.models import remote
from tensorferry.storage import cache

CACHED = {"cache": True}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache of its own."""
    path = tmp_path / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(path))
    return path / "objects"


def sent(s3):
    """Number of bytes that were fetched since the last look."""
    total = sum(request.sent for request in s3.requests if request.method == "GET")
    s3.clear()
    return total


def put(s3, name="x.npy", value=1.0):
    array = np.full(100_000, value)
    ferry.save(array, s3.url(name))
    s3.clear()
    return array


def test_an_object_is_fetched_once(s3, folder):
    """The second load of an object fetches its start alone, which tells the version."""
    array = put(s3)
    for number in range(3):
        np.testing.assert_array_equal(ferry.load(s3.url("x.npy"), storage_options=CACHED), array)
        assert (sent(s3) > array.nbytes) == (number == 0)

    put(s3, value=2.0)
    found = ferry.load(s3.url("x.npy"), storage_options=CACHED)
    assert found[0] == 2.0


def test_weights_are_fetched_by_ranges(s3, folder):
    """Without the cache, of a large file only the tensors asked for are fetched."""
    tensors = {f"t{n}": np.full(500_000, n, np.float32) for n in range(8)}
    ferry.save(tensors, s3.url("x.safetensors"))
    s3.clear()
    weights = {"t3": np.zeros(500_000, np.float32)}
    with ferry.open(s3.url("x.safetensors")) as bundle:
        weights["t3"][:] = bundle["t3"]

    assert weights["t3"][0] == 3
    assert sent(s3) < 2.5 * weights["t3"].nbytes
    assert not folder.exists()


def test_it_is_private(s3, folder):
    """Nobody else may read or write what is cached; a folder of others is refused."""
    put(s3)
    ferry.load(s3.url("x.npy"), storage_options=CACHED)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="others could put files into the cache"):
        ferry.load(s3.url("x.npy"), storage_options=CACHED)


def test_names_lead_nowhere(s3, folder):
    """The name of a cached file is a digest, whatever the object is called."""
    s3.put("a/..%2f..%2fetc/x y\u202e.bin", b"abc")
    with storage.open_source(s3.url("a/..%2f..%2fetc/x y\u202e.bin"), options=CACHED) as source:
        assert source.everything() == b"abc"
    (file,) = folder.iterdir()

    assert cache._NAME.fullmatch(file.name)


def test_a_damaged_copy_is_fetched_again(s3, folder):
    """A copy that is shorter than the object, or no file at all, is not used."""
    array = put(s3)
    ferry.load(s3.url("x.npy"), storage_options=CACHED)
    (file,) = folder.iterdir()
    file.write_bytes(b"half")
    np.testing.assert_array_equal(ferry.load(s3.url("x.npy"), storage_options=CACHED), array)
    file.unlink()
    file.symlink_to("/etc/passwd")
    np.testing.assert_array_equal(ferry.load(s3.url("x.npy"), storage_options=CACHED), array)


def test_it_is_bounded(s3, folder, monkeypatch):
    """The objects that were not used for the longest time go first; arrays of theirs stay valid."""
    monkeypatch.setattr(ferry.limits, "cache", 2_000_000)
    arrays = []
    for number in range(4):
        put(s3, f"{number}.npy", number)
        arrays.append(ferry.load(s3.url(f"{number}.npy"), storage_options=CACHED))
        ferry.load(s3.url("0.npy"), storage_options=CACHED)
        time.sleep(0.01)
    names = {os.path.basename(file) for file in folder.iterdir()}

    assert len(names) == 2
    assert [array[0] for array in arrays] == [0, 1, 2, 3]
    s3.clear()
    ferry.load(s3.url("0.npy"), storage_options=CACHED)
    assert sent(s3) < 100_000
    monkeypatch.setattr(ferry.limits, "cache", 1000)
    put(s3, "large.npy")
    ferry.load(s3.url("large.npy"), storage_options=CACHED)
    assert {os.path.basename(file) for file in folder.iterdir()} == names


def test_it_can_be_turned_off(s3, folder, monkeypatch):
    """An empty variable means no cache."""
    array = put(s3)
    monkeypatch.setenv(cache.VARIABLE, "")
    np.testing.assert_array_equal(ferry.load(s3.url("x.npy"), storage_options=CACHED), array)
    assert not folder.exists()


def test_processes_share_it(s3, folder):
    """Several processes that start at the same time fetch an object once."""
    array = put(s3)
    program = (
        "import tensorferry as ferry\n"
        f"x = ferry.load({s3.url('x.npy')!r}, storage_options={{'cache': True}})\n"
        "assert x.sum() == 100_000, x"
    )
    workers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]

    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert sent(s3) < array.nbytes + 3 * 200_000
    assert len(list(folder.iterdir())) == 1


def test_models_come_out_of_it(s3, folder, tmp_path):
    """A model is fetched once for all processes; each gets a copy of its own."""
    s3.put("model/saved_model.pb", b"program" * 100_000)
    s3.put("model/variables/variables.index", b"index")
    s3.clear()
    for number in range(2):
        with remote.fetched(s3.url("model"), None) as path:
            program = Path(path, "saved_model.pb")
            assert len(program.read_bytes()) == 700_000
            program.write_bytes(b"changed")
        assert (sent(s3) > 700_000) == (number == 0)


@pytest.mark.parametrize("fault", ["500", "503", "429", "reset"])
def test_faults_are_survived(s3, folder, monkeypatch, fault):
    """Every second request fails, and large objects are written and read all the same."""
    monkeypatch.setattr(storage_settings(), "part_size", 5 << 20)
    array = np.arange(1_500_000, dtype=np.float64)  # three parts
    s3.faults = itertools.cycle([fault, ""])
    ferry.save(array, s3.url("x.npy"))
    found = ferry.load(s3.url("x.npy"))
    cached = ferry.load(s3.url("x.npy"), storage_options=CACHED)
    s3.faults = iter(())

    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(cached, array)
    assert s3.uploads() == 0


def storage_settings():
    from tensorferry.storage.remote import settings

    return settings


def test_profiles(s3, tmp_path, monkeypatch):
    """Without variables, the keys in Amazon's own files are used."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    keys, settings = tmp_path / "credentials", tmp_path / "config"
    keys.write_text("[training]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    settings.write_text(f"[profile training]\nregion = us-east-1\nendpoint_url = {s3.endpoint}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(settings))
    monkeypatch.setenv("AWS_PROFILE", "training")
    s3.put("x.bin", b"abc")

    with storage.open_source(s3.url("x.bin")) as source:
        assert source.everything() == b"abc"
