"""A crawl stopped half-way, made once for all tests of a file; each test takes a copy of its job to damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawl.jobs import Stopped, stopped_job


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    with stopped_job(tmp_path_factory.mktemp("stopped"), 15, 30) as made:
        yield made


@pytest.fixture
def job(stopped: Stopped, tmp_path: Path) -> Path:
    return stopped.copy(tmp_path / "job")
