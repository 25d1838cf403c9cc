"""Lines of the index of an archive in CDXJ: key, time, and a JSON object with the location of the record.

The lines are sorted by their bytes. The field names are those of cdxj-indexer; as in its output, numbers are strings.
"""

from __future__ import annotations

import json
import re

from crawler.web.archive.http_block import status_of
from crawler.web.archive.record_layout import Kind
from crawler.web.archive.surt import surt
from crawler.web.archive.warc_reader import FoundRecord

HEAD_MOST = 2**18  # bytes of a block to read, enough for the head of its HTTP message

_TYPE = re.compile(rb"\r\ncontent-type:[ \t]*([^;\s]*)", re.IGNORECASE)
_DIGITS = re.compile("[^0-9]")
_REVISIT_TYPE = "warc/revisit"
_NO_TYPE = "unk"
_NOT_MODIFIED = 304


def line_of(found: FoundRecord, file_name: str) -> bytes | None:
    """Return the index line of a record in the file ``file_name``, or None if the record is not indexed. Only responses
    and revisits are indexed, except 304 responses: these have no payload, and readers would replay them instead of the
    unchanged page."""
    kind = found.fields.get("warc-type")
    if kind not in (Kind.RESPONSE, Kind.REVISIT):
        return None
    url = found.fields.get("warc-target-uri", "")
    head = found.block.partition(b"\r\n\r\n")[0]
    status, stated = status_of(head), _TYPE.search(head)
    if kind == Kind.REVISIT and status == _NOT_MODIFIED:
        return None
    mime = _REVISIT_TYPE if kind == Kind.REVISIT else stated[1].decode("latin-1") if stated else ""
    values = {
        "url": url,
        "mime": mime or _NO_TYPE,
        "status": "" if status is None else f"{status:03}",
        "digest": found.fields.get("warc-payload-digest", ""),
        "length": str(found.length),
        "offset": str(found.offset),
        "filename": file_name,
    }
    named = json.dumps({name: value for name, value in values.items() if value})
    time = _DIGITS.sub("", found.fields.get("warc-date", ""))[:14]
    return f"{surt(url)} {time} {named}\n".encode("ascii")
