"""Programs that tests use and PyPI does not have."""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str, package: str) -> str:
    """The path of ``program``, which Debian's ``package`` installs.

    Without it the test is skipped and says what to install; where CI=true it fails, so that no check is lost there
    unnoticed.
    """
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"{program} is missing: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
