"""A bucket of moto."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from tests.job.bucket.stores import credentials, moto


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with moto() as port, credentials(port):
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/news", method="PUT")).close()
        yield "s3://news"
