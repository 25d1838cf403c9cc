from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.web import Hostile


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    """Hostile hosts, an innocent one, and no crawl yet."""
    with Hostile(tmp_path) as web:
        yield web
