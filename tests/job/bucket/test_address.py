from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawler.job.bucket.address import is_address, open_objects
from crawler.job.bucket.objects import BucketError

SECRET = "hunter2"
IN_CLOUD = {"S3://news/": "s3://news", "s3://news/a/b/": "s3://news/a/b", "gs://my.example/a": "gs://my.example/a"}
IN_CLOUD |= {"az://container/a": "az://container/a"}
WRONG = [f"s3://key:{SECRET}@news", f"s3://news?secret={SECRET}", f"s3://news/a#{SECRET}"]
WRONG += [f"https://{SECRET}@host", "/a"]
WRONG += ["s3:news", "s3:///a", "s3://news/a//b", "s3://news/../a", "s3://news/a\nb"]
WRONG += ["az://container"]  # without an account
WRONG += [f"file://user:{SECRET}@host/a", "file:relative", "file://host/a", "file:/a\nb"]


def test_an_address_is_normalised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "name")
    directory = f"file:{tmp_path}/a@b c"
    in_directory = [(text, directory) for text in (directory, f"file://{tmp_path}/x/../a@b c/")]
    for address, normalised in [*IN_CLOUD.items(), *in_directory]:
        assert is_address(address)
        assert open_objects(address).address == normalised
    assert not any(is_address(text) for text in ("", "news", "/a/b", "https://host/a", "a/s3:b"))


@pytest.mark.parametrize("address", WRONG)
def test_a_wrong_address_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(BucketError, match=r"^[^\n]+\Z") as caught:
        open_objects(address)
    assert SECRET not in str(caught.value)


def test_obstore_is_imported_only_for_a_cloud() -> None:
    program = (
        "import sys; sys.modules['obstore'] = None; from crawler.job.bucket.address import open_objects\n"
        "try: open_objects('s3://news')\nexcept Exception as error: print(type(error).__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "BucketError\n"
