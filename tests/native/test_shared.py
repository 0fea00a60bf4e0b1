"""Objects that several threads use: a writer keeps every record, the rest says it is busy."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorferry as ferry
from tensorferry import _native
from tensorferry.formats.tfrecord.writer import RecordWriter
from tensorferry.storage.place import Target

THREADS = 4


def together(work, count=THREADS):
    """Calls `work(number)` in threads that start at once; raises what the first of them raised."""
    failures = []
    start = threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def in_order(records):
    """Whether the records are all there, and those of each thread in its order."""
    by_thread: dict[int, list[int]] = {}
    for record in records:
        thread, number = record.split(b" ")[:2]
        by_thread.setdefault(int(thread), []).append(int(number))
    return {thread: numbers == list(range(len(numbers))) for thread, numbers in by_thread.items()}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("shards", [None, 3])
def test_bytes(tmp_path, suffix, shards):
    """Records of bytes that threads write into one writer are all there, each thread's in order."""
    count, filling = 4000, b"x" * 500
    path = tmp_path / f"x.tfrecord{suffix}"
    with ferry.writer(path, shards=shards, durable=False) as writer:

        def write(thread):
            for number in range(count):
                writer.write(b"%d %d " % (thread, number) + filling)

        together(write)
    files = [path] if shards is None else sorted(tmp_path.iterdir())
    records = [record for file in files for record in ferry.open(file, raw=True)]

    assert len(records) == len(set(records)) == THREADS * count
    assert shards or in_order(records) == dict.fromkeys(range(THREADS), True)


def test_rows_columns_and_bytes(tmp_path):
    """Rows, columns and bytes may come from several threads at once."""
    path = tmp_path / "x.tfrecord.gz"
    with ferry.writer(path, durable=False) as writer:

        def write(thread):
            for number in range(20):
                if thread % 2:
                    ids = np.full(300, thread * 100 + number)
                    writer.write_batch({"id": ids, "text": np.array([b"x" * 50] * 300, object)})
                else:
                    for _ in range(300):
                        writer.write({"id": thread * 100 + number, "text": "x" * 50})

        together(write)
        writer.flush()
        assert writer.count == THREADS * 20 * 300
    batch = next(iter(ferry.open(path).batches(THREADS * 20 * 300)))
    ids, counts = np.unique(batch["id"], return_counts=True)

    assert ids.tolist() == [
        100 * thread + number for thread in range(THREADS) for number in range(20)
    ]
    assert set(counts.tolist()) == {300}


def test_reading(tmp_path):
    """Threads may read the records of one file that was opened, each in its own order."""
    path = tmp_path / "x.tfrecord"
    with ferry.writer(path, durable=False) as writer:
        writer.write_batch({"id": np.arange(3000), "text": np.array([b"x"] * 3000, object)})
    with ferry.open(path) as records:

        def read(thread):
            assert sum(len(batch["id"]) for batch in records.batches(64 + thread)) == 3000
            assert [row["id"] for row in records] == list(range(3000))
            assert [records[number]["id"] for number in range(thread, 3000, 100)] == list(
                range(thread, 3000, 100)
            )

        together(read)


def test_closing_meanwhile(tmp_path):
    """A record is either in the file or was refused, if another thread closes the writer."""
    path = tmp_path / "x.tfrecord"
    writer = ferry.writer(path, durable=False)
    written = [0] * THREADS

    def write(thread):
        if thread == 0:
            while writer.count < 10_000:
                pass
            writer.close()
            return
        with pytest.raises(ValueError, match="the writer is closed"):
            while True:
                writer.write(b"%d %d " % (thread, written[thread]) + b"x" * 500)
                written[thread] += 1

    together(write)
    records = list(ferry.open(path, raw=True))

    assert len(records) == sum(written)
    assert set(in_order(records).values()) == {True}


class Calling:
    """A file that uses the writer that writes to it."""

    def __init__(self):
        self.call = None
        self.size = 0

    def write(self, data):
        self.size += len(data)
        if self.call is not None:
            self.call()


@pytest.mark.parametrize("how", ["bytes", "rows", "columns"])
@pytest.mark.parametrize("call", ["write", "flush", "close", "write_batch"])
def test_a_sink_that_calls_back(how, call):
    """A sink that uses its own writer gets an error, and no lock is waited for."""
    sink = Calling()
    writer = RecordWriter(Target("<calling>", into=sink))
    argument = {"write": ({"a": 1},), "write_batch": ({"a": np.arange(3)},)}.get(call, ())
    sink.call = lambda: getattr(writer, call)(*argument)

    with pytest.raises(RuntimeError, match="writer is busy"):  # noqa: SIM117
        with writer:
            if how == "bytes":
                writer.write(b"x")
            elif how == "rows":
                writer.write({"a": 2})
            else:
                writer.write_batch({"a": np.arange(3)})


class Failing:
    """A file that takes no bytes once."""

    def __init__(self):
        self.failures = 1
        self.taken = 0

    def write(self, data):
        if self.failures:
            self.failures -= 1
            raise OSError(28, "no space left")
        self.taken += len(data)


@pytest.mark.parametrize("how", ["bytes", "rows", "columns"])
def test_a_sink_that_failed_once(how):
    """A writer that could not write something never ends well, even if the error was caught."""
    sink = Failing()
    writer = RecordWriter(Target("<failing>", into=sink))
    with pytest.raises(OSError, match="no space left"):
        if how == "bytes":
            writer.write(b"x")
        elif how == "rows":
            writer.write({"a": 2})
        else:
            writer.write_batch({"a": np.arange(3)})
        writer.flush()

    with pytest.raises(OSError, match="no space left"):
        writer.close()
    assert sink.taken == 0


def test_framer_that_is_called_back():
    """A framer refuses what its own `hand_on` adds, and keeps what it hands on."""
    taken = []

    def hand_on(view):
        with pytest.raises(RuntimeError, match="busy"):
            framer.add(b"again")
        with pytest.raises(RuntimeError, match="busy"):
            framer.flush()
        taken.append(view)

    framer = _native.Framer(hand_on, 1)
    framer.add(b"first")
    framer.add(b"second")
    records = [_native.tfrecord_read(view, 0, 9, True)[0] for view in taken]

    assert records == [[b"first"], [b"second"]]


def sources(rows):
    return [("a", 3, False, np.arange(rows), None, 1, None, None)]


def test_encoder_that_is_called_back():
    """An encoder refuses to be used from `hand_on`; its pieces stay good when they are kept."""
    encoder = _native.ExampleEncoder()
    encoder.prepare(sources(50_000), 50_000)
    taken = []

    def hand_on(view):
        for call in (encoder.clear, lambda: encoder.encode(0, 1), lambda: encoder.prepare([], 0)):
            with pytest.raises(RuntimeError, match="busy"):
                call()
        taken.append((view, bytes(view)))

    encoder.encode_pieces(0, 50_000, 1 << 14, 1, hand_on)
    encoder.prepare(sources(10), 10)
    encoder.encode_pieces(0, 10, 1 << 14, 1, lambda view: None)
    encoder = None

    assert len(taken) > 10
    assert all(bytes(view) == data for view, data in taken)


def test_view_outlives_its_encoder():
    """What `encode` gives is good after the next call, and after the encoder is gone."""
    encoder = _native.ExampleEncoder()
    encoder.prepare(sources(1000), 1000)
    view = encoder.encode(0, 1000)
    data = bytes(view)
    encoder.prepare(sources(2000), 2000)
    encoder.encode(0, 2000)
    encoder = None

    assert bytes(view) == data


def test_piece_of_nothing():
    """A piece that nobody filled has no bytes to show."""
    with pytest.raises(BufferError, match="without bytes"):
        memoryview(_native.Piece.__new__(_native.Piece))


def frames(count):
    encoder = _native.ExampleEncoder()
    encoder.prepare(sources(count), count)
    return bytes(encoder.encode(0, count))


def test_decoder_in_two_threads():
    """A decoder at work refuses other calls; a second one may read the same bytes."""
    data = frames(200_000)
    decoder = _native.ExampleDecoder([("a", 3, False, True, 1)])
    busy = []

    def decode(thread):
        for _ in range(20):
            try:
                if thread % 2:
                    decoder.clear()
                    decoder.decode(data, 0, 200_000, True)
                else:
                    decoder.copy_values(0, np.empty(decoder.sizes()[0][0], np.int64))
            except RuntimeError as error:
                busy.append(str(error))
            except ValueError:
                pass  # other rows by now

    together(decode)

    assert busy
    assert set(busy) == {"the decoder is busy: another call uses it"}


def test_decoder_that_a_team_has():
    """A decoder that was given to a team is not to be used until it was waited for."""
    data = frames(1000)
    decoder = _native.ExampleDecoder([("a", 3, False, True, 1)])
    team = _native.ExampleTeam(1)
    team.submit([(decoder, data, 0, 1000, True)])
    for call in (decoder.clear, decoder.sizes, lambda: team.submit([(decoder, data, 0, 1, True)])):
        with pytest.raises(RuntimeError, match="the decoder is busy"):
            call()

    assert team.wait()
    assert decoder.sizes() == [(1000, 1000, 0)]
    team.submit([(decoder, data, 0, 1000, True)])
    team = None
    decoder.clear()
    assert decoder.rows == 0


INTERRUPTED = """
import _thread, signal, sys, threading, time
import tensorferry as ferry

signal.signal(signal.SIGINT, signal.default_int_handler)
ends = 0
for turn in range(60):
    timer = threading.Timer(0.002 + turn * 0.0001, _thread.interrupt_main)
    try:
        with ferry.writer(sys.argv[1], durable=False) as writer:
            timer.start()
            while True:
                writer.write({"a": 1})
    except KeyboardInterrupt:
        ends += 1
    timer.join()
print(ends)
"""


def test_interrupted(tmp_path):
    """Ctrl-C ends a writer wherever it is, and nothing stays locked."""
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "x.tfrecord")],
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert (run.stdout, run.stderr) == ("60\n", "")
    assert list(tmp_path.iterdir()) == []
