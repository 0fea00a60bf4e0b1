"""Sizes and versions of many objects, from few requests."""

from __future__ import annotations

import pytest
from servers import Web

from tensorferry.storage import listing
from tensorferry.storage.place import Place


def test_sizes_and_versions(s3):
    """A listing tells what opening each object tells, whatever lies between and in folders."""
    sizes = {"a/x": 3, "a/x-1": 0, "a/y/z": 5, "b": 70_000}
    for key, size in sizes.items():
        s3.put(key, b"." * size)
        s3.put(key + "-other", b"")
    opened = [Place(s3.url(key)) for key in sizes]
    known = [(place.open().size, place.version()) for place in opened]
    places = [Place(s3.url(key)) for key in sizes]
    s3.clear()
    listing.learn(places)

    assert [(place.size(), place.version()) for place in places] == known
    assert [place.size() for place in places] == list(sizes.values())
    assert len(s3.requests) == 1
    assert places[0].open().size == 3


def test_unlisted(s3):
    """An object that is not there, or that nobody lists, is asked for when it is opened."""
    s3.put("a", b"12")
    places = [Place(s3.url("a")), Place(s3.url("none"))]
    listing.learn(places)
    assert places[0].size() == 2
    with pytest.raises(FileNotFoundError):
        places[1].size()

    server = Web(b"1234")
    try:
        pages = [Place(server.url("a")), Place(server.url("b"))]
        listing.learn(pages)
        assert not server.requests
        assert [place.size() for place in pages] == [4, 4]
    finally:
        server.stop()


def test_many_others(s3, monkeypatch):
    """A listing is given up where too many objects lie between the wanted ones."""
    monkeypatch.setattr(listing, "SPARE", 5)
    for number in range(40):
        s3.put(f"{number:02}", b"1")
    places = [Place(s3.url("00")), Place(s3.url("39"))]
    listing.learn(places)

    assert [place.is_known for place in places] == [True, False]
    assert [place.size() for place in places] == [1, 1]
