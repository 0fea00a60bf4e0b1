"""Remote files: how many requests reading them takes, on a real S3 server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from servers import Web

from tensorferry import storage
from tensorferry.storage import ranged

KB, MB = 1 << 10, 1 << 20
DATA = np.random.default_rng(11).bytes(20 * MB)


@pytest.fixture
def url(s3):
    """An object of 20 MB, and no request since."""
    url = s3.put("x", DATA)
    s3.clear()
    return url


class TestOpening:
    """What the first look at a file costs."""

    @pytest.mark.parametrize("size", [1, ranged.HEAD - 1, ranged.HEAD, ranged.HEAD + 1])
    def test_one_request(self, s3, size):
        """Size and start come together, and a small object comes as a whole."""
        url = s3.put("small", DATA[:size])
        s3.clear()
        with storage.open_source(url) as source:
            assert source.size == size
            assert source.head(12) == DATA[: min(12, size)]
            assert source.range(0, min(size, ranged.HEAD)) == DATA[: min(size, ranged.HEAD)]
            assert len(s3.requests) == 1
            assert source.everything() == DATA[:size]

    def test_empty(self, s3):
        """An empty object, which has no range, is asked for twice."""
        url = s3.put("empty", b"")
        s3.clear()
        with storage.open_source(url) as source:
            assert (source.size, source.head(9), source.everything()) == (0, b"", b"")
        assert [request.method for request in s3.requests] == ["GET", "HEAD"]

    def test_the_end_is_held(self, s3, url):
        """A look at the last bytes fetches what formats look at next: footers, directories."""
        with storage.open_source(url) as source:
            assert source.range(len(DATA) - 8, len(DATA)) == DATA[-8:]
            assert source.range(len(DATA) - 50 * KB, len(DATA) - 8) == DATA[-50 * KB : -8]
            start = len(DATA) - ranged.TAIL
            assert source.range(start, start + 9) == DATA[start : start + 9]
        assert len(s3.requests) == 2

    def test_exists_transfers_nothing(self, s3, url):
        """Whether an object is there is asked without fetching it."""
        assert storage.exists(url)
        assert not storage.exists(s3.url("none"))
        assert {(request.method, request.sent) for request in s3.requests} == {("HEAD", 0)}


class TestExpect:
    """What is planned together."""

    def test_neighbours(self, s3, url):
        """80 tensors of 4 KB side by side are one request, and what is given are views of it."""
        spans = [(MB + i * 4 * KB, MB + (i + 1) * 4 * KB) for i in range(80)]
        with storage.open_source(url) as source:
            source.expect(reversed(spans))
            assert len(s3.requests) == 1
            parts = [source.range(*span) for span in spans]
            assert parts == [DATA[start:stop] for start, stop in spans]
            assert source.ranges(spans) == parts
            assert len(s3.requests) == 2
            assert s3.requests[1].sent == 320 * KB
            bases = {np.frombuffer(part, np.uint8).__array_interface__["data"][0] for part in parts}
            assert max(bases) - min(bases) == 79 * 4 * KB

    def test_large_spans(self, s3, url):
        """Larger ones are fetched in pieces, several at once."""
        spans = [(MB + i * MB, MB + (i + 1) * MB) for i in range(16)]
        with storage.open_source(url) as source:
            source.expect(spans)
            assert [source.range(*span) for span in spans] == [DATA[a:b] for a, b in spans]
            source.expect([(MB, 10 * MB)])
            assert source.range(MB, 10 * MB) == DATA[MB : 10 * MB]
            assert source.range(2 * MB, 9 * MB) == DATA[2 * MB : 9 * MB]
        sizes = sorted(request.sent for request in s3.requests)
        assert sizes == [ranged.HEAD, MB, *[ranged.PIECE] * 6]

    def test_requests_run_at_once(self, s3, url, monkeypatch):
        """The requests that follow are under way while a reader waits for the first."""
        together = threading.Barrier(4, timeout=600)
        fetch = ranged.RangedSource._exactly

        def fetch_together(self, start, stop):
            together.wait()
            return fetch(self, start, stop)

        with storage.open_source(url) as source:
            source.expect([(i * 4 * MB + 1, (i + 1) * 4 * MB) for i in range(4)])
            monkeypatch.setattr(ranged.RangedSource, "_exactly", fetch_together)
            assert source.range(1, 100_000) == DATA[1:100_000]

    def test_nothing_is_fetched_before_it_is_read(self, s3, url):
        """A plan that nobody reads costs nothing, and one that is left early costs little."""
        with storage.open_source(url) as source:
            source.expect([(MB, 19 * MB)])
            source.expect([(i * 100_000, i * 100_000 + 9) for i in range(5, 10)])
            assert source.range(19 * MB, 19 * MB + 1) == DATA[19 * MB : 19 * MB + 1]
            assert len(s3.requests) == 2

    def test_a_new_plan_keeps_what_it_needs(self, s3, url):
        """Bytes that were fetched for the last plan are used by the next, and dropped after it."""
        with storage.open_source(url) as source:
            source.expect([(MB, MB + 10), (MB + 5000, MB + 5010)])
            source.range(MB, MB + 10)
            source.expect([(MB + 20, MB + 4000)])
            assert source.range(MB + 20, MB + 4000) == DATA[MB + 20 : MB + 4000]
            assert len(s3.requests) == 2
            source.expect([])
            source.range(MB, MB + 10)
            assert len(s3.requests) == 3

    def test_what_is_held_is_bounded(self, s3, url, monkeypatch):
        """Spans beyond the bound are read all the same, by requests of their own."""
        monkeypatch.setattr(ranged, "HOLD", 5 * MB)
        spans = [(MB, 9 * MB), (10 * MB, 11 * MB), (12 * MB, 18 * MB)]
        with storage.open_source(url) as source:
            source.expect(spans)
            assert [block.size for block in source._held.blocks] == [MB]
            assert [source.range(*span) for span in spans] == [DATA[a:b] for a, b in spans]

    def test_reading_in_order(self, s3, url):
        """Reading in order takes what is held, too."""
        with storage.open_source(url) as source:
            source.expect([(ranged.HEAD, 3 * MB)])
            source.range(ranged.HEAD, 3 * MB)
            assert source.read(3 * MB) == DATA[: 3 * MB]
            assert len(s3.requests) == 2
            assert source.read(1 << 30) == DATA[3 * MB :]

    def test_odd_spans(self, s3, url):
        """Spans that are empty or not in the file are no error before they are read."""
        with storage.open_source(url) as source:
            source.expect([(5, 5), (-3, 9), (9, 2), (len(DATA) - 5, len(DATA) + 5), (0, 100)])
            assert source.range(0, 100) == DATA[:100]
            assert len(s3.requests) == 1
        with pytest.raises(ValueError, match="closed"):
            source.expect([(0, 1)])

    def test_threads(self, s3, url):
        """Many threads that read and plan at once get the bytes they ask for."""
        choose = np.random.default_rng(5)
        starts = choose.integers(0, 19 * MB, (200, 4)).tolist()

        def work(numbers):
            spans = [(start, start + 5000) for start in numbers]
            source.expect(spans)
            return all(source.range(a, b) == DATA[a:b] for a, b in spans)

        with storage.open_source(url) as source, ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, starts))

    def test_a_failure_is_the_readers_own(self, s3, url):
        """An object that is replaced after planning raises where it is read, and reads go on."""
        with storage.open_source(url) as source:
            source.expect([(MB, MB + 10)])
            s3.put("x", DATA[::-1])
            with pytest.raises(OSError, match="was replaced"):
                source.range(MB, MB + 10)
            s3.put("x", DATA)
            assert source.range(MB, MB + 10) == DATA[MB : MB + 10]

    def test_servers_without_ranges(self):
        """A server that gives no ranges is asked for everything once, whatever is planned."""
        web = Web(DATA[:MB])
        web.mode = "no ranges"
        with storage.open_source(web.url()) as source:
            source.expect([(0, 10), (500_000, 500_010)])
            assert source.range(500_000, 500_010) == DATA[500_000:500_010]
            asked = len(web.requests)
            assert source.again().range(7, 9) == DATA[7:9]
            assert len(web.requests) == asked
        web.stop()


class TestAgain:
    """Another reader of the same file."""

    def test_from_the_first_byte(self, s3, url):
        """It reads from the start, whatever the other has read, and asks for nothing to open."""
        with storage.open_source(url) as source:
            source.read(MB)
            s3.clear()
            other = source.again()
            assert (other.path, other.size) == (source.path, source.size)
            assert other.read(100) == DATA[:100]
            assert s3.requests == []
            assert source.read(10) == DATA[MB : MB + 10]
            other.close()
            assert source.range(5 * MB, 5 * MB + 9) == DATA[5 * MB : 5 * MB + 9]
        with pytest.raises(ValueError, match="closed"):
            source.again()

    def test_the_same_version(self, s3, url):
        """It is of the version that was opened first."""
        with storage.open_source(url) as source:
            s3.put("x", DATA[::-1])
            with pytest.raises(OSError, match="was replaced"):
                source.again().range(MB, MB + 10)

    def test_filesystems(self):
        """Files of fsspec have other readers, too."""
        pytest.importorskip("fsspec")
        with storage.open_sink("memory://again.bin") as sink:
            sink.write(DATA[:MB])
        with storage.open_source("memory://again.bin") as source:
            assert source.read(1000) == DATA[:1000]
            other = source.again()
            assert other.read(1 << 30) == DATA[:MB]
            other.expect([(7, 9), (100_000, 100_010)])
            assert other.range(100_000, 100_010) == DATA[100_000:100_010]
        storage.remove("memory://again.bin")
