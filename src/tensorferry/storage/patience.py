"""How long a reader goes on who finds that files were replaced while they were opened."""

from __future__ import annotations

import time
from collections.abc import Iterator

# Long enough for files that two programs replace without a pause, on a busy machine; where one
# attempt takes seconds, at least so many.
SECONDS = 10.0
LEAST = 20
_STEP = 0.0002
_LONGEST = 0.02


def attempts() -> Iterator[int]:
    """Numbers of attempts, from 0; between two of them is a pause, for as long as it is worth it.

    The pauses grow and are random, so that a reader does not keep step with a writer.
    """
    yield 0
    ends = time.monotonic() + SECONDS
    number = 1
    while number < LEAST or time.monotonic() < ends:
        import random  # hardly anybody has to wait

        time.sleep(random.uniform(0, min(number * _STEP, _LONGEST)))
        yield number
        number += 1
