"""What several tests of records start from."""

from __future__ import annotations

import pytest
from formats.records import rows_of, write


@pytest.fixture
def path(tmp_path):
    """A TFRecord file of 100 rows; the tests of other formats have a `path` of their own."""
    return write(tmp_path / "a.tfrecord", rows_of(100))
