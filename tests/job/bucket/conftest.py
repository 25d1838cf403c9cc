"""A bucket of moto, and stores of both kinds."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.job.bucket.address import open_objects
from crawler.job.bucket.objects import Objects
from tests.job.bucket.stores import credentials, moto


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with moto() as port, credentials(port):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/news", method="PUT")).close()
        yield "s3://news"


@pytest.fixture(params=["directory", "moto"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty store."""
    if request.param == "directory":
        return open_objects(f"file:{tmp_path}/made/store")
    return open_objects(f"{request.getfixturevalue('bucket')}/of/{tmp_path.name}")
