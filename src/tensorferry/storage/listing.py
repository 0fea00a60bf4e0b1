"""Listing: the sizes and versions of many objects, from few requests.

    learn(places)                   # place.size() and place.version() make no request any more

Whoever plans work over many objects needs the size of each. A store tells those of a thousand
objects in one answer, in the order of their names: from the first wanted name to the last one.
Objects that the listing does not show, and those of servers that list nothing, are asked for one by
one, by whoever needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from tensorferry.errors import UnsupportedError
from tensorferry.storage.backend import of_store
from tensorferry.storage.place import Place
from tensorferry.storage.serving import backend_of
from tensorferry.storage.url import split

# So many objects that nobody wants may lie between the others, and so many for each wanted one.
SPARE = 1000
SPARE_FOR_EACH = 10


def learn(places: Iterable[Place]) -> None:
    """Tells places in stores the sizes and versions of their objects, as far as listings do."""
    stores: dict[tuple[str, int], dict[str, Place]] = {}
    for place in places:
        if place.is_url and place.is_named and not place.is_known:
            key = split(place.path).root, id(place.options)
            stores.setdefault(key, {})[place.path] = place
    for wanted in stores.values():
        if len(wanted) > 1:
            # Whoever may read may not always list.
            with suppress(OSError, UnsupportedError):
                _learn(wanted)


def _learn(wanted: dict[str, Place]) -> None:
    first, last = min(wanted), max(wanted)
    most = SPARE + (SPARE_FOR_EACH + 1) * len(wanted)
    found = backend_of(first).measure(first, last, of_store(wanted[first].options))
    for one in islice(found, most):
        place = wanted.pop(one.url, None)
        if place is not None:
            place.learn(one)
