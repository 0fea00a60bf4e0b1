"""`ferry verify`: what is damaged is found, and what is sound is not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import NAMES, columns, run

import tensorferry as ferry


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_sound(files, call, name, quick):
    """Files of every format are sound."""
    ran = call("verify", files / name, *(["--quick"] if quick else []))

    assert ran.code == 0, ran.out
    assert ran.out.startswith("sound")


@pytest.mark.parametrize(
    "name", ["values.npz", "rows.tfrecord", "rows.tfrecord.gz", "rows.parquet", "array.npy.zst"]
)
def test_a_flipped_bit(files, call, tmp_path, name):
    """Where values have checksums, one bit that changed among them is a problem: exit code 1."""
    data = bytearray((files / name).read_bytes())
    place = data.find(columns()["score"][20].tobytes()) if "." in name else -1
    data[place if place > 0 else len(data) // 2] ^= 4
    path = tmp_path / name
    path.write_bytes(data)
    ran = call("verify", path, "--json")
    (found,) = json.loads(ran.out)["files"]

    assert ran.code == 1
    assert found["problems"]
    assert found["problems"][0]["path"] == str(path)


def test_every_damage_is_listed(files, call, tmp_path):
    """Damaged records are listed one by one, with the record and the byte; others count."""
    data = bytearray((files / "rows.tfrecord").read_bytes())
    for text in (b"row 7", b"row 30"):
        data[data.find(text)] ^= 1
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(data[:-3])
    ran = call("verify", path)
    quick = call("verify", path, "--quick", "--json")

    assert ran.code == 1
    assert "37 records, 3 problems" in ran.out
    assert "record 7, byte" in ran.out
    assert "ferry repair" in ran.out
    assert len(json.loads(quick.out)["files"][0]["problems"]) == 1


@pytest.mark.parametrize("name", [name for name in NAMES if name != "array.raw"])
def test_truncated(files, call, tmp_path, name):
    """A file without its end is a problem in every format."""
    path = tmp_path / name
    path.write_bytes((files / name).read_bytes()[:-9])
    ran = call("verify", path)

    assert ran.code == 1, ran.out + ran.err
    assert str(path) in ran.out


def test_nan_and_duplicates(call, tmp_path):
    """NaN, and records that occur twice, are problems if they are asked for."""
    arrays = tmp_path / "arrays.npz"
    ferry.save({"a": np.array([1, np.nan, np.inf]), "b": np.zeros(2)}, arrays, durable=False)
    records = tmp_path / "twice.tfrecord"
    with ferry.writer(records, durable=False) as out:
        for number in (1, 2, 1):
            out.write({"id": number})

    assert call("verify", arrays, records).code == 0
    ran = call("verify", arrays, records, "--nan")
    assert ran.code == 1
    assert "tensor 'a': 1 values are NaN and 1 infinite" in ran.out
    ran = call("verify", arrays, records, "--duplicates")
    assert ran.code == 2
    assert "record 2: the same as record 0" in ran.out
    assert "duplicates are looked for among records, found tensors" in ran.err


def test_an_index_that_does_not_fit(files, call, tmp_path):
    """An index beside the records that does not fit them is a problem."""
    path = tmp_path / "rows.tfrecord"
    path.write_bytes((files / "rows.tfrecord").read_bytes())
    (tmp_path / "rows.tfrecord.idx").write_text("0 10\n")
    ran = call("verify", path)

    assert ran.code == 1
    assert "rows.tfrecord.idx" in ran.out


def test_unreadable(tmp_path):
    """What is of no format, or not there, is wrong use: exit code 2."""
    path = tmp_path / "strange"
    path.write_bytes(b"\x01\x02strange bytes of no format" * 9)

    assert run("verify", path).code == 2
    assert run("verify", tmp_path / "missing.npz").code == 2


def test_function(files):
    """The public function gives a report."""
    report = ferry.verify(files / "rows.tfrecord")

    assert isinstance(report, ferry.VerifyReport)
    assert (report.sound, report.count, report.checksums) == (True, 40, True)


@pytest.mark.parametrize("name", ["out.safetensors", "out.npy", "out.arrow"])
def test_digest_in_the_metadata(files, call, tmp_path, name):
    """A digest that was kept with a file finds a bit that changed in a format without checksums."""
    path = tmp_path / name
    options = ["--digest", "--select", "score"]
    assert call("convert", files / "rows.parquet", path, *options, "--verify").code == 0
    ran = call("verify", path)
    assert ran.code == 0
    assert "no checksums" not in ran.out
    data = path.read_bytes()
    old = columns()["score"][0, 0].tobytes()
    assert old in data
    path.write_bytes(data.replace(old, old[:-2] + bytes([old[-2] ^ 1]) + old[-1:], 1))
    assert call("verify", path).code == 1


def test_digest_has_a_place(files, call, tmp_path):
    """Records have no place for a digest, and one that is handed on is made anew."""
    first, second = tmp_path / "a.safetensors", tmp_path / "b.npz"

    assert call("convert", files / "values.npz", tmp_path / "x.tfrecord", "--digest").code == 2
    assert call("convert", files / "values.npz", first, "--digest").code == 0
    assert call("convert", first, second, "--dtype", "float16").code == 0
    assert call("verify", second).code == 0
    assert "content_digest" not in call("info", second).out


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_every_damage_of_a_table(call, tmp_path, name):
    """Each damaged column of each row group or batch is a problem, with its first row and byte."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    path = tmp_path / name
    texts = [f"text {row}" for row in range(300)]
    table = pa.table({"id": np.arange(300), "text": texts, "other": texts})
    if name.endswith("parquet"):
        with parquet.ParquetWriter(
            path, table.schema, use_dictionary=False, compression="none", write_page_checksum=True
        ) as writer:
            for start in (0, 100, 200):
                writer.write_table(table[start : start + 100])
    else:
        with ipc.new_file(path, table.schema) as writer:
            for start in (0, 100, 200):
                writer.write_batch(table[start : start + 100].to_batches()[0])
    data = bytearray(path.read_bytes())
    for text in (b"text 17", b"text 250"):  # of both columns, in the first and the last piece
        place = -1
        for _ in range(2):
            place = data.index(text, place + 1)
            data[place] = 0xFF  # no text
    path.write_bytes(data)
    ran = call("verify", path, "--json")
    problems = json.loads(ran.out)["files"][0]["problems"]

    assert ran.code == 1
    assert [(found["record"], found["tensor"]) for found in problems] == [
        (row, column) for row in (0, 200) for column in ("text", "other")
    ]
    assert all(0 < found["offset"] < len(data) for found in problems)
    assert call("verify", path, "--quick").code == 0


def test_quick_does_not_look_at_values(files, call, tmp_path):
    """With --quick, the frames of records are walked over, and a changed value is not seen."""
    path = tmp_path / "changed.tfrecord"
    data = bytearray((files / "rows.tfrecord").read_bytes())
    data[data.find(b"row 7")] ^= 1
    path.write_bytes(data)

    assert call("verify", path).code == 1
    ran = call("verify", path, "--quick")
    assert ran.code == 0
    assert "40 records, structure only" in ran.out


@pytest.mark.parametrize("name", ["model.ckpt", "model.safetensors.index.json"])
def test_an_index_without_its_data(call, tmp_path, name):
    """A file that an index leads to, and that is not there, is a problem of that file."""
    tensors = {f"layer/{n}": np.full(100, n, np.float32) for n in range(4)}
    if name == "model.ckpt":
        ferry.save(tensors, tmp_path / name, durable=False)
        lost = next(tmp_path.glob("*.data-*"))
    else:
        ferry.save(tensors, tmp_path / "model.safetensors", shard_size=500, durable=False)
        lost = sorted(tmp_path.glob("model-*.safetensors"))[1]
    lost.unlink()
    ran = call("verify", tmp_path / name, "--json")
    (found,) = json.loads(ran.out)["files"][0]["problems"]

    assert ran.code == 1
    assert found["path"] == str(lost)
    assert call("info", tmp_path / name).code == 2
    assert "no such file" in call("info", tmp_path / name).err.lower()


def test_a_lost_shard(call, tmp_path):
    """A set of shards without one of them is damaged, and the missing one is named."""
    with ferry.writer(tmp_path / "a.tfrecord@3", durable=False) as out:
        out.write_batch(columns())
    (tmp_path / "a.tfrecord-00001-of-00003").unlink()
    ran = call("verify", tmp_path / "a.tfrecord@3")

    assert ran.code == 1
    assert "missing a.tfrecord-00001-of-00003" in ran.out


def test_all_files_of_a_folder(call, tmp_path):
    """A folder is not sound because its latest checkpoint is: older ones and rows are checked."""
    saver = ferry.Saver({"w": np.ones(3)})
    for step in range(3):
        saver.save(tmp_path / "model", global_step=step)
    ferry.save({"x": np.arange(9)}, tmp_path / "rows.tfrecord", durable=False)
    ferry.save({"x": np.arange(9)}, tmp_path / "other.npz", durable=False)
    names = [tmp_path / name for name in ("model-0", "model-1", "rows.tfrecord", "other.npz")]

    ran = call("verify", tmp_path)
    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()] == [str(tmp_path), *map(str, names)]

    for name in ("model-0.data-00000-of-00001", "rows.tfrecord"):
        data = bytearray((tmp_path / name).read_bytes())
        data[20] ^= 1
        (tmp_path / name).write_bytes(data)
    ran = call("verify", tmp_path, "--json")
    assert ran.code == 1
    sound = {one["path"]: one["sound"] for one in json.loads(ran.out)["files"]}
    assert [sound.pop(str(names[0])), sound.pop(str(names[2]))] == [False, False]
    assert list(sound.values()) == [True] * 3


def test_checkpoints_of_which_none_is_the_latest(call, tmp_path):
    """Without a `checkpoint` file, a folder of checkpoints names none, but can be verified."""
    for name in ("a.ckpt", "b.ckpt"):
        ferry.save({"w": np.ones(3)}, tmp_path / name, durable=False)
    (tmp_path / "checkpoint").unlink()

    ran = call("verify", tmp_path)
    assert ran.code == 0
    assert [line.split()[1] for line in ran.out.splitlines()] == [
        str(tmp_path / "a.ckpt"),
        str(tmp_path / "b.ckpt"),
    ]
    assert "name one of them" in call("info", tmp_path).err


def test_a_damaged_state_file(call, tmp_path):
    """A `checkpoint` file that cannot be read is damage, whatever else the folder has."""
    for name in ("a.ckpt", "b.ckpt"):
        ferry.save({"w": np.ones(3)}, tmp_path / name, durable=False)
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: {")

    ran = call("verify", tmp_path)

    assert ran.code != 0
    assert "checkpoint" in ran.out + ran.err
    assert "sound" not in ran.out
