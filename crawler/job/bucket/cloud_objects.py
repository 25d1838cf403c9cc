"""An object store in a cloud, accessed with obstore: S3 and compatible stores, Google Cloud Storage, Azure Blob
Storage.

Credentials come from the environment, in the variables that obstore documents for each provider. obstore raises the
same type for most errors, so the status and error code are read from the error's text. Request URLs are never shown,
because they may hold signatures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from crawler.job.bucket.objects import BucketDown, BucketError, Listed, check_key, check_prefix

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

# The last retry starts at most 30 s after the first attempt, and takes at most 30 s.
_TIMEOUT = timedelta(seconds=30)
_RETRY: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=25),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
# For each scheme: the class of the store, and the prefix of its environment variables.
_STORES: dict[str, tuple[Callable[..., ObjectStore], str]] = {
    "s3": (S3Store, "AWS"),
    "gs": (GCSStore, "GOOGLE"),
    "az": (AzureStore, "AZURE"),
}
_ENDPOINT = "AWS_ENDPOINT_URL"
_SERVER = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?(?:/[A-Za-z0-9._~/-]*)?")
_PAGE = 1000  # objects per listing response

_STATUS = re.compile(r"status code: ([0-9]{3})")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>|\(code: ([A-Za-z]+)\)")
_SYSTEM = re.compile(r'\bOs \{[^}]*\bmessage: "([^"\n]*)"|\bkind: (Timeout)\b')
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_CONFLICTS = {"ConditionalRequestConflict", "OperationAborted"}
_NO_LOGIN = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AccessDenied"}
_PASSING_STATUSES = {"408", "409", "429"}
_PASSING_CODES = {"RequestTimeout", "IncompleteBody", "BadDigest", "InternalError", "SlowDown", "ServiceUnavailable"}
# The metadata services from which obstore requests credentials if the environment has none.
_OF_MACHINE = re.compile(r"://[^/\s]+/(?:latest/(?:api/token|meta-data/)|computeMetadata/|metadata/identity/)")


class CloudObjects:
    """A cloud store; see ``Objects``. A call ends within about 60 s; for ``list``, this limit applies to each 1,000
    objects."""

    def __init__(self, scheme: str, bucket: str, prefix: str) -> None:
        """``scheme`` is s3, gs or az. Does not contact the store. Raises BucketError."""
        self.address = f"{scheme}://{bucket}/{prefix}".rstrip("/")
        make, provider = _STORES[scheme]
        _check_environment(provider)
        http = scheme == "s3" and os.environ.get(_ENDPOINT, "").startswith("http://")
        # Passing options makes obstore ignore this variable.
        allow_http = http or os.environ.get(f"{provider}_ALLOW_HTTP", "").lower() == "true"
        client: ClientConfig = {"timeout": _TIMEOUT, "allow_http": allow_http}
        try:
            self._store = make(bucket, prefix=prefix or None, client_options=client, retry_config=_RETRY)
        except (BaseError, ValueError) as error:
            raise BucketError(
                f"cannot use {self.address}: {_reason(error)}; check the environment variables {provider}_..."
            ) from None

    def put(self, key: str, data: bytes) -> bool:
        check_key(key)
        with self._faults():
            try:
                # Use a single request: not every store honours the condition at the end of a multipart upload.
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                if _code(error) in _CONFLICTS:  # another put or delete of the key is in progress
                    raise BucketDown(f"{self.address}: another process is changing the same object") from None
                return False
        return True

    def get(self, key: str) -> bytes | None:
        check_key(key)
        with self._faults():
            try:
                return obstore.get(self._store, key).bytes().to_bytes()
            except FileNotFoundError as error:
                if _code(error) in _NO_BUCKET:
                    raise
                return None

    def list(self, prefix: str) -> Iterator[Listed]:
        check_prefix(prefix)
        return self._pages(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        with self._faults():
            try:
                obstore.delete(self._store, [*keys])
            except FileNotFoundError as error:
                if _code(error) in _NO_BUCKET:
                    raise
                # Some stores stop deleting at the first missing object, so delete the objects one at a time.
                if len(keys) > 1:
                    for key in keys:
                        self.delete([key])

    def _pages(self, prefix: str) -> Iterator[Listed]:
        folder = prefix.rpartition("/")[0]  # obstore can only list whole folders
        with self._faults():
            for page in obstore.list(self._store, folder or None, chunk_size=_PAGE):
                for meta in page:
                    if meta["path"].startswith(prefix):
                        yield Listed(meta["path"], meta["size"], meta["last_modified"].timestamp())

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            fault = self._fault(error)
        else:
            return
        raise fault from None  # the error's own text may hold a signature

    def _fault(self, error: Exception) -> BucketError | BucketDown:
        text = str(error)
        match = _STATUS.search(text)
        status, code = match[1] if match else "", _code(error)
        said = f"{status} {code}".strip()
        if isinstance(error, NotImplementedError) or status == "501":
            return BucketError(
                f"{self.address} does not support conditional puts: use a store that honours If-None-Match, "
                "and leave AWS_CONDITIONAL_PUT unset"
            )
        if status in _PASSING_STATUSES or status.startswith("5") or code in _PASSING_CODES:
            return BucketDown(f"{self.address} is unavailable ({said})")
        if _OF_MACHINE.search(text):
            return BucketError(f"no credentials for {self.address}: set the provider's environment variables")
        login = isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in ("401", "403")
        if login or code in _NO_LOGIN:
            return BucketError(
                f"{self.address} refuses the credentials ({said}): they have expired, are wrong, or lack a permission"
            )
        if code in _NO_BUCKET or status == "404":
            return BucketError(f"{self.address}: no such bucket; create it, or correct the address")
        reason = _reason(error)
        if status or "redirect" in reason or "builder error" in reason:
            return BucketError(
                f"{self.address} rejects the request ({said or reason}): check the address, AWS_REGION and {_ENDPOINT}"
            )
        return BucketDown(f"{self.address} does not answer ({reason})")


def _code(error: Exception) -> str:
    """Return the error code in the store's response; an empty string if it has none."""
    match = _CODE.search(str(error))
    return (match[1] or match[2]) if match else ""


def _reason(error: Exception) -> str:
    """Return what obstore and the operating system say about the error, without request URLs."""
    text = str(error)
    line = re.sub(r"\S+://\S+", "...", text.partition("\n")[0].rpartition(" - ")[2])
    said = _SYSTEM.search(text)
    return f"{line}: {said[1] or said[2]}" if said else line


def _check_environment(provider: str) -> None:
    """Raise BucketError if the value of an environment variable would make obstore panic; the message leaves it out."""
    for name, value in os.environ.items():
        if name.startswith(f"{provider}_") and not value.isprintable():
            raise BucketError(f"the environment's {name} is not a single line of text: remove its line breaks")
    if provider == "AWS" and (endpoint := os.environ.get(_ENDPOINT)):
        match = _SERVER.fullmatch(endpoint)
        if match is None or int(match[1] or 0) >= 2**16:
            raise BucketError(f"{_ENDPOINT} is not a server URL: write https://HOST:PORT")
