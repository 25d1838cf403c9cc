"""What tests use and the package does not install by itself."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

import pytest


def need(program: str, package: str) -> str:
    """The path of ``program``, which Debian's ``package`` installs; see ``miss``."""
    path = shutil.which(program)
    return miss(program, package) if path is None else path


def need_version(distribution: str, least: int) -> None:
    """Of a distribution of the extra ``dev``, this major version or a later one; see ``miss``."""
    try:
        if int(version(distribution).split(".")[0]) >= least:
            return
    except PackageNotFoundError:
        pass
    _lack(f"{distribution} {least} is missing: pip install '{distribution}>={least}'")


def miss(what: str, package: str) -> NoReturn:
    """Skip the test and say what to install; where CI=true fail it, so that no check is lost there unnoticed."""
    _lack(f"{what} is missing: apt-get install {package}")


def need_native() -> None:
    """The part of the program that is written in C; see ``miss``."""
    try:
        import_module("crawler.base.native")
    except ImportError as error:
        _lack(f"crawler._native is not built ({error}): python setup.py build_ext --inplace")


def _lack(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
