from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawler.job.bucket.address import is_address, open_objects
from crawler.job.bucket.objects import BucketError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "normalised"),
    [
        ("s3://news", "s3://news"),
        ("S3://news/", "s3://news"),
        ("s3://news/a/b/", "s3://news/a/b"),
        ("gs://my-news.example/a", "gs://my-news.example/a"),
        ("az://container/a", "az://container/a"),
    ],
)
def test_an_address_in_a_cloud(monkeypatch: pytest.MonkeyPatch, address: str, normalised: str) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "name")
    assert is_address(address)
    assert open_objects(address).address == normalised


def test_the_address_of_a_directory(tmp_path: Path) -> None:
    for text in (f"file:{tmp_path}/a@b c", f"file://{tmp_path}/x/../a@b c/"):
        assert is_address(text)
        assert open_objects(text).address == f"file:{tmp_path}/a@b c"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://key:{SECRET}@news",
        f"s3://news?secret={SECRET}",
        f"s3://news/a#{SECRET}",
        f"file://user:{SECRET}@host/a",
        "s3:news",
        "s3://",
        "s3:///a",
        "s3://news/a//b",
        "s3://news/../a",
        "s3://news/a\nb",
        "az://container",  # without an account
        "file:",
        "file:relative",
        "file://host/a",
        "file:/a\nb",
        "file:/a\0b",
        f"https://{SECRET}@host",
        "/a",
    ],
)
def test_a_wrong_address_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(BucketError, match=r"^[^\n]+\Z") as caught:
        open_objects(address)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["", "news", "/a/b", "https://host/a", "redis://host", "a/s3:b", "unix:/a"])
def test_other_texts_are_no_addresses(text: str) -> None:
    assert not is_address(text)


def test_obstore_is_imported_only_for_a_cloud() -> None:
    program = (
        "import sys; sys.modules['obstore'] = None; from crawler.job.bucket.address import open_objects\n"
        "try: open_objects('s3://news')\nexcept Exception as error: print(type(error).__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "BucketError\n"
