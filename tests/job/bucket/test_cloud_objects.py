"""What a store in a cloud answers when it cannot do as asked."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from crawler.job.bucket.address import open_objects
from crawler.job.bucket.objects import BucketDown, BucketError, check_objects, put_own
from tests.job.bucket.stores import SECRET, FailingS3, credentials, every_call, serving

LASTING = [(400, "ExpiredToken"), (401, ""), (403, "AccessDenied"), (404, "NoSuchBucket"), (301, "PermanentRedirect")]
LASTING += [(400, "AuthorizationHeaderMalformed"), (501, "NotImplemented")]
PASSING = [(400, "RequestTimeout"), (429, ""), (500, "InternalError"), (503, "SlowDown")]
ENDPOINTS = ["nonsense", "http://", "ftp://host", "http://[a", "http://host:99999", f"https://u:{SECRET}@host"]


@pytest.fixture
def server() -> Iterator[FailingS3]:
    server = FailingS3()
    with serving(server), credentials(server.server_port):
        yield server


@pytest.mark.parametrize(("status", "code"), [*LASTING, *PASSING])
def test_an_answer_says_whether_repeating_helps(server: FailingS3, status: int, code: str) -> None:
    server.answer = (status, code)
    calls = every_call(open_objects("s3://news/a"))
    kind = BucketDown if (status, code) in PASSING else BucketError
    for call in calls if status < 429 else calls[:2]:  # obstore takes a second to repeat a call
        with pytest.raises(kind, match=r"^s3://news/a[^\n]*$|^[^\n]* s3://news/a[^\n]*$") as caught:
            call()
        assert SECRET not in str(caught.value)
        assert caught.value.__suppress_context__, "a traceback would show the request"


def test_a_store_that_ignores_the_condition_is_refused(server: FailingS3) -> None:
    with pytest.raises(BucketError, match=r"^[^\n]+$"):
        check_objects(open_objects("s3://news"))
    server.honours = True
    check_objects(open_objects("s3://news"))


def test_a_put_whose_answer_was_lost_is_told_by_its_content(server: FailingS3) -> None:
    server.honours, server.loses = True, 1
    objects = open_objects("s3://news")
    assert put_own(objects, "key", b"mine")
    assert server.loses == 0
    assert put_own(objects, "key", b"mine")
    assert not put_own(objects, "key", b"of another")


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_put_beside_another_one_is_not_decided(server: FailingS3, code: str) -> None:
    server.answer = (409, code)
    with pytest.raises(BucketDown):
        open_objects("s3://news").put("key", b"")
    server.answer = (409, "BlobAlreadyExists")
    assert not open_objects("s3://news").put("key", b"")


def test_a_missing_object_keeps_no_other_from_being_deleted(server: FailingS3) -> None:
    objects = open_objects("s3://news")
    for key in ("a", "c", "d"):
        objects.put(key, b"")
    objects.delete(["a", "b", "c"])
    assert list(server.objects) == ["/news/d"]


def test_a_server_that_is_down_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with credentials(port):
        for call in every_call(open_objects("s3://news/redirect/latest/api/token")):
            with pytest.raises(BucketDown):
                call()


def test_missing_credentials_are_a_fault_of_the_user(server: FailingS3) -> None:
    with credentials(server.server_port) as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.delenv("AWS_SECRET_ACCESS_KEY")
        # In place of the one that a machine in the cloud has.
        patch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        server.answer = (404, "")
        with pytest.raises(BucketError):
            open_objects("s3://news").get("key")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        with pytest.raises(BucketError):
            open_objects("s3://news")


@pytest.mark.parametrize("value", [*ENDPOINTS, f"{SECRET}\n"])
def test_a_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    name = "AWS_ENDPOINT_URL" if value in ENDPOINTS else "AWS_SECRET_ACCESS_KEY"
    monkeypatch.setenv(name, value)
    with pytest.raises(BucketError, match=rf"^[^\n]*{name}[^\n]*\Z") as caught:
        open_objects("s3://news")
    assert SECRET not in str(caught.value)


def test_plain_http_is_used_only_if_it_is_allowed(server: FailingS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that name an endpoint are several; one of them allows it by itself."""
    monkeypatch.setenv("AWS_ENDPOINT", os.environ["AWS_ENDPOINT_URL"])
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    with pytest.raises(BucketError):
        open_objects("s3://news").get("key")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert open_objects("s3://news").get("key") is None
