"""Work in the background: asked for twice it is done once, and left alone it gives way."""

from __future__ import annotations

import threading
import time

import pytest

from tensorferry.viewer import jobs


def until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.01)


def endless(job):
    while True:
        job.progress(len(job.items), None)
        time.sleep(0.005)
        yield len(job.items)


@pytest.fixture
def found():
    every = jobs.Jobs()
    yield every
    every.end()


def test_once(found):
    """The same key is the same work; its items are given from any place on."""
    job = found.get("a", lambda job: iter(range(5)))
    assert found.get("a", endless) is job
    until(lambda: job.finished)
    assert job.since(3) | {"items": [3, 4], "next": 5, "finished": True} == job.since(3)


def test_what_nobody_asks_for_gives_way(found, monkeypatch):
    """Slow jobs of views that were left do not block the next one, and start anew when wanted."""
    monkeypatch.setattr(jobs, "LEFT", 0.2)
    slow = [found.get(number, endless) for number in range(jobs.RUNNING)]
    until(lambda: all(job.items for job in slow))
    quick = found.get("quick", lambda job: iter([1]))
    until(lambda: quick.since(0)["finished"])
    assert quick.items == [1]
    until(lambda: any(job.error == "stopped" for job in slow))
    place = next(number for number, job in enumerate(slow) if job.error == "stopped")
    again = found.get(place, lambda job: iter([2]))
    until(lambda: again.since(0)["finished"])
    assert again.items == [2]


def test_many(found):
    """Of a flood of jobs the last are kept; the threads of the others end."""
    before = threading.active_count()
    asked = [found.get(number, endless) for number in range(300)]
    found.end()
    until(lambda: all(job.finished for job in asked))
    until(lambda: threading.active_count() <= before + jobs.RUNNING)


def test_failure(found):
    """What went wrong is told, with what was found before."""

    def work(job):
        yield 1
        raise OSError("no")

    job = found.get("a", work)
    until(lambda: job.finished)
    assert (job.items, job.error) == ([1], "OSError: no")
