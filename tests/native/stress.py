"""Eight threads that use the native core at once, for `make sanitize`.

    python tests/native/stress.py SECONDS

Readers and writers are shared, views outlive their batches, arrays change while they are written.
At the end daemon threads are left in native calls. Every answer that can be known is checked.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter

import numpy as np

import tensorferry as ferry
from tensorferry import _native

ROWS = 2000
COLUMNS = {
    "id": np.arange(ROWS),
    "list": np.arange(ROWS * 5).reshape(ROWS, 5) * 12345,
    "score": np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3),
    "text": np.array([b"text %d" % number for number in range(ROWS)], object),
}


def flat(array: np.ndarray) -> memoryview:
    """The elements of an array of int64, one behind the other."""
    return memoryview(array.reshape(-1)).cast("B").cast("q")


class Stress:
    """What the threads share."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, "shared.tfrecord")
        with ferry.writer(self.path, durable=False) as writer:
            writer.write_batch(COLUMNS)
        self.records = ferry.open(self.path, threads=3)
        with open(self.path, "rb") as file:
            self.frames = file.read()
        self.decoder = _native.ExampleDecoder(
            [("id", 3, False, True, 1), ("text", 1, False, True, 1)]
        )
        self.encoder = _native.ExampleEncoder()
        self.team = _native.ExampleTeam(2)
        index, _, _ = _native.tfrecord_index(self.frames, 0, 1 << 60, True)
        self.places = np.frombuffer(index, np.int64)[::2] - 12  # of frames, which have a head
        self.splits = np.arange(ROWS + 1)
        self.changing = {name: column.copy() for name, column in COLUMNS.items()}
        self.kept: list[tuple[np.ndarray, int]] = []
        self.views: list[tuple[memoryview, bytes]] = []
        self.done: Counter[str] = Counter()
        self.busy = 0

    def read(self) -> None:
        """Batches of a file that others read, too; arrays are kept beyond their batch."""
        for batch in self.records.batches(300):
            values = batch["list"]
            self.kept.append((values, int(values.sum())))
        assert self.records[ROWS // 2]["text"] == b"text %d" % (ROWS // 2)
        while len(self.kept) > 50:
            values, total = self.kept.pop(0)
            assert values.sum() == total

    def encode(self) -> None:
        """Pieces that are kept beyond their encoder."""
        encoder = _native.ExampleEncoder()
        sources = [
            ("id", 3, False, COLUMNS["id"], None, 1, None, None),
            ("text", 1, False, COLUMNS["text"], None, 1, None, None),
        ]
        encoder.prepare(sources, ROWS)
        take = self.views.append
        encoder.encode_pieces(0, ROWS, 1 << 12, 2, lambda view: take((view, bytes(view))))
        while len(self.views) > 50:
            view, data = self.views.pop(0)
            assert bytes(view) == data

    def share_natives(self) -> None:
        """A decoder and an encoder that several threads use: busy, or right."""
        try:
            self.decoder.clear()
            self.decoder.decode(self.frames, 0, ROWS, True)
            self.decoder.copy_values(0, np.empty(ROWS, np.int64))
            self.encoder.prepare([("a", 3, False, COLUMNS["id"], None, 1, None, None)], ROWS)
            self.encoder.encode(0, ROWS)
        except (RuntimeError, ValueError, IndexError):  # another thread came between two calls
            self.busy += 1

    def scatter(self) -> None:
        """A team that several threads use, and rows of a table whose splits change."""
        columns = [("id", 3, False, True, 1), ("text", 1, False, True, 1)]
        try:
            decoder = _native.ExampleDecoder(columns)
            self.team.submit_at(
                decoder, [self.frames], np.zeros_like(self.places), self.places, True
            )
            assert self.team.wait()
        except (RuntimeError, ValueError):  # another thread uses it, or has waited for this work
            self.busy += 1
        lines = np.zeros((ROWS, 4), np.int64)
        try:
            _native.lay_out_rows(COLUMNS["id"], self.splits, bytes(8), lines)
        except ferry.FormatError:
            self.busy += 1

    def change(self) -> None:
        """Changes the columns that others write.

        Element by element: Python itself writes those, where ThreadSanitizer does not look. It
        would see what NumPy copies, and report the race that is meant here; a suppression of NumPy
        would hide others.
        """
        numbers, lists = flat(self.changing["id"]), flat(self.changing["list"])
        splits, texts = flat(self.splits), self.changing["text"]
        for round_ in range(5):
            for row in range(ROWS):
                numbers[row] = -round_
                lists[row * 5 + round_] = 1 << round_ * 12
            for row in range(1, ROWS, 7):
                splits[row] = 1 << 40
            for row in range(1, ROWS, 7):
                splits[row] = row
            for row in range(0, ROWS, 3):
                texts[row] = bytes(row % 100 + round_)

    def write_changing(self) -> None:
        """Writes columns that change: an error, or sound frames."""
        sink: list[bytes] = []
        writer = ferry.writer(
            os.path.join(self.folder, f"{threading.get_ident()}.tfrecord"), durable=False
        )
        try:
            with writer:
                writer.write_batch(self.changing)
        except RuntimeError as error:
            assert "changed while it was written" in str(error), error
            return
        sink.extend(ferry.open(writer.paths[0], raw=True))
        assert len(sink) == ROWS

    def small(self) -> None:
        """Calls that hold the GIL, and others that let it go."""
        value = ferry.dumps(COLUMNS["score"])
        assert (ferry.loads(value) == COLUMNS["score"]).all()
        assert _native.crc32c(self.frames) == _native.crc32c(self.frames)
        assert _native.tfrecord_scan(self.frames, 0, 1 << 60, True)[0] == ROWS
        _native.highway_hash(self.frames, bytes(32))
        records, _, _ = _native.tfrecord_read(self.frames, 0, 1 << 60, True)
        assert _native.tfrecord_frame(records) == self.frames
        survey = _native.ExampleSurvey()
        survey.add(self.frames, 0, 1 << 60, True)
        assert survey.rows == ROWS

    def work(self, number: int, end: float) -> None:
        """One thread: all of it in turn, each beginning elsewhere."""
        jobs = [
            self.read, self.change, self.encode, self.share_natives,
            self.write_changing, self.small, self.change, self.write_shared, self.scatter,
        ]  # fmt: skip
        turn = number
        while time.monotonic() < end:
            job = jobs[turn % len(jobs)]
            job()
            self.done[job.__name__] += 1
            turn += 1

    def write_shared(self) -> None:
        """Bytes, rows and columns into the writer of all threads."""
        for number in range(100):
            self.writer.write(b"%d" % number * 100)
            if number % 10 == 0:
                self.writer.write({"a": number})
        self.writer.write_batch({"a": np.arange(100)})

    def run(self, seconds: float) -> None:
        """All threads, and then what they wrote is counted."""
        failures: list[BaseException] = []
        path = os.path.join(self.folder, "written.tfrecord.gz")
        self.writer = ferry.writer(path, durable=False)
        end = time.monotonic() + seconds

        def work(number: int) -> None:
            try:
                self.work(number, end)
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.writer.close()
        if failures:
            raise failures[0]
        count = sum(1 for _ in ferry.open(path, raw=True))
        assert count == self.done["write_shared"] * 210 == self.writer.count, (count, self.done)


def leave_daemons(frames: bytes) -> None:
    """Threads that are in native calls when Python ends."""

    def loop(number: int) -> None:
        encoder = _native.ExampleEncoder()
        encoder.prepare([("a", 3, False, COLUMNS["id"], None, 1, None, None)], ROWS)
        while True:
            if number % 4 == 0:
                _native.crc32c(frames)
            elif number % 4 == 1:
                encoder.encode_pieces(0, ROWS, 1 << 10, 1, lambda view: None)
            elif number % 4 == 2:
                _native.ExampleDecoder([("id", 3, False, True, 1)]).decode(frames, 0, ROWS, True)
            else:
                _native.Framer(lambda view: time.sleep(0), 1).add(b"x")

    for number in range(8):
        threading.Thread(target=loop, args=(number,), daemon=True).start()
    time.sleep(0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        stress = Stress(folder)
        stress.run(float(sys.argv[1]))
        print(dict(stress.done), "busy:", stress.busy)
        leave_daemons(stress.frames)
