"""Programs that tests use and PyPI does not have."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(program: str, package: str) -> str:
    """The path of ``program``, which Debian's ``package`` installs; see ``miss``."""
    path = shutil.which(program)
    return miss(program, package) if path is None else path


def miss(what: str, package: str) -> NoReturn:
    """Skip the test and say what to install; where CI=true fail it, so that no check is lost there unnoticed."""
    reason = f"{what} is missing: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
