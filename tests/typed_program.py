"""A user's program, as mypy --strict sees it: see tests/test_types.py. It also runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tensorferry as ferry


def main(folder: Path) -> int:
    """Writes and reads files of several kinds."""
    saved = ferry.save({"a": np.ones(3)}, folder / "x.npz", metadata={"by": "me"})
    size: int = saved.nbytes
    bundle = ferry.open(folder / "x.npz")
    assert isinstance(bundle, ferry.Bundle)
    info: ferry.TensorInfo = bundle.info["a"]
    shape: tuple[int | None, ...] = info.shape
    with ferry.writer(folder / "x.tfrecord", shards=2) as out:
        out.write({"id": 1, "text": "one"})
        out.write_batch({"id": np.arange(3), "text": ["a", "b", "c"]})
    rows = ferry.open([folder / "x.tfrecord@2"], columns=["id"], on_error="raise")
    assert isinstance(rows, ferry.Rows)
    count: int = len(rows)
    for batch in rows.batches(2):
        assert set(batch) == {"id"}
    report: ferry.VerifyReport = ferry.verify(folder / "x.npz")
    found: ferry.FileInfo = ferry.inspect(folder / "x.npz")
    same: bool = ferry.diff(folder / "x.npz", folder / "x.npz").equal
    data: bytes = ferry.dumps(np.zeros(2), format="npz", compression="deflate")
    splits = [split.rows for split in rows.splits(2)]
    print(size, shape, count, report.sound, found.format, same, len(data), splits)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
