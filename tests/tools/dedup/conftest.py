from __future__ import annotations

import pytest

from tests.tools.dedup.commands import Commands


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Commands:
    return Commands(capfdbinary)
