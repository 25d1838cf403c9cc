"""What every object store promises."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crawler.job.bucket.address import open_objects
from crawler.job.bucket.objects import BucketError, Objects, check_objects
from tests.job.bucket.stores import every_call


def test_an_object_is_put_once(objects: Objects) -> None:
    assert objects.get("a/b/c") is None
    assert objects.put("a/b/c", b"first")
    assert not objects.put("a/b/c", b"second")
    assert objects.get("a/b/c") == b"first"
    for key, data in {"empty": b"", "large": bytes(range(256)) * (12 * 4096)}.items():
        assert objects.put(key, data)
        assert not objects.put(key, b"other")
        assert objects.get(key) == data


def test_one_of_many_writers_succeeds(objects: Objects) -> None:
    for key in ("x/1", "x/2", "y/z/3"):
        with ThreadPoolExecutor(8) as pool:
            contents = [f"{number}".encode() for number in range(8)]
            put = list(pool.map(lambda data, key=key: objects.put(key, data), contents))
        assert put.count(True) == 1
        assert objects.get(key) == contents[put.index(True)]


def test_a_list_has_what_begins_with_the_text(objects: Objects) -> None:
    keys = {"runs/1", "runs/10", "runs/1.x/a", "runs/2", "run", "other/runs/1"}
    began = time.time()
    for key in keys:
        assert objects.put(key, key.encode())
    found = list(objects.list(""))
    assert {each.key for each in found} == keys
    assert all(each.size == len(each.key) and abs(each.modified - began) < 60 for each in found)
    for prefix in ("run", "runs/", "runs/1", "runs/1.x/", "none/", "run/"):
        assert {each.key for each in objects.list(prefix)} == {key for key in keys if key.startswith(prefix)}


def test_a_listing_of_many_is_whole(objects: Objects) -> None:
    keys = {f"many/{number}" for number in range(1020)}
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda key: objects.put(key, b""), keys))
    assert {each.key for each in objects.list("many/")} == keys
    objects.delete([*keys, "many/none"])
    assert not list(objects.list(""))


def test_deleted_is_absent(objects: Objects) -> None:
    for key in ("a/1", "a/2", "b"):
        objects.put(key, b"")
    objects.delete(("a/1", "none", "none/at/all", "b"))
    objects.delete([])
    assert [each.key for each in objects.list("")] == ["a/2"]
    assert objects.put("a/1", b"again")
    assert objects.get("a/1") == b"again"


def test_a_store_that_can_be_used_is_accepted_and_left_as_it_was(objects: Objects) -> None:
    check_objects(objects)
    assert not list(objects.list(""))


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", ".part/a", "a b", "ä", "a\n"])
def test_other_keys_are_refused(objects: Objects, key: str) -> None:
    for call in (objects.get, lambda key: objects.put(key, b""), lambda key: objects.delete([key])):
        with pytest.raises(ValueError, match="key"):
            call(key)


def test_a_bucket_that_does_not_exist_is_told_from_an_object_that_does_not(bucket: str) -> None:
    for call in every_call(open_objects("s3://nothing/at/all")):
        with pytest.raises(BucketError, match=r"^s3://nothing/at/all[^\n]*$"):
            call()
