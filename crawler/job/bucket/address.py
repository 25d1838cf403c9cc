"""Opens the object store at a user-given address."""

from __future__ import annotations

import os
import re
from pathlib import Path

from crawler.job.bucket.directory_objects import DirectoryObjects
from crawler.job.bucket.objects import BucketError, Objects, is_key

FORMS = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:/DIRECTORY (an absolute path)"
_SCHEMES = ("s3", "gs", "az", "file")
_IN_CLOUD = re.compile(r"//([A-Za-z0-9][A-Za-z0-9._-]*)(?:/+(.*?)/*)?")


def is_address(text: str) -> bool:
    """Return True if the text starts with the scheme of an object store; the rest is not checked."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme.lower() in _SCHEMES


def open_objects(address: str, *, reading: bool = False) -> Objects:
    """Open the store at an address. A directory is created if it does not exist, unless the store is opened for
    reading; a cloud store is not contacted yet. Raises BucketError, or BucketDown if a directory is unavailable."""
    scheme, _, rest = address.partition(":")
    scheme = scheme.lower()
    if not is_address(address):
        raise _misunderstood()
    if scheme == "file":
        return DirectoryObjects(_directory(rest), reading=reading)
    if "@" in rest or "?" in rest or "#" in rest:
        raise BucketError(
            f"the address holds a user, a password or options, which others could read: write only {scheme}://, the "
            "bucket and a prefix, and put credentials in the environment"
        )
    match = _IN_CLOUD.fullmatch(rest)
    if match is None or (match[2] and not is_key(match[2])):
        raise _misunderstood()
    try:
        # Imported here because few crawls need it.
        from crawler.job.bucket.cloud_objects import CloudObjects  # noqa: PLC0415
    except ImportError as error:
        raise BucketError(f"an address {scheme}://... needs obstore: pip install obstore") from error
    return CloudObjects(scheme, match[1], match[2] or "")


def _directory(rest: str) -> Path:
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    if not path.startswith("/") or path.startswith("//") or not path.isprintable():
        raise _misunderstood()
    return Path(os.path.normpath(path))


def _misunderstood() -> BucketError:
    # The message leaves out the address: any part of a malformed one may be a password.
    return BucketError(f"invalid object store address: write {FORMS}")


def check_apart(directory: Path, address: str) -> None:
    """Raise BucketError if the job's directory contains the store's directory, or lies inside it: removing the outer
    one would remove both. Also raises BucketError for an invalid address of a directory."""
    scheme, _, rest = address.partition(":")
    if scheme.lower() != "file":
        return
    job, store = directory.resolve(), _directory(rest).resolve()
    if store == job or job in store.parents or store in job.parents:
        raise BucketError(f"{store} and the job {directory} must not contain one another: use a directory elsewhere")
