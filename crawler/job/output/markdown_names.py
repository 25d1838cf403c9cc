"""Where the Markdown of a page is kept: a relative path that is made of its URL, with a folder for the host and each
folder of the URL.

The path of one URL is never that of another, and no file is where another one needs a folder: a name from which the URL
can be read back is that of no other URL, all others end in a part of its hash, and no folder ends in ``.md``.
"""

from __future__ import annotations

import re
from hashlib import sha256

INDEX = "index.jsonl"  # beside the folders of the hosts

_SEGMENT, _FOLDERS, _PATH = 80, 12, 240  # at most: bytes of a folder or a file's name, folders, bytes of a path
_HOST, _PORT, _HASH = 60, 5, 16  # characters; of a hash, in hexadecimal: two in 10^8 pages are equal by 1 in 4,000
_NOT_IN_HOST = re.compile(r"[^a-z0-9._-]|^\.|^\Z|\.(?=jsonl\Z)")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._~@,()+=%-]|^\.")
_NOT_IN_FOLDER = re.compile(rf"{_NOT_IN_NAME.pattern}|^\Z|\.(?=md\Z)")
_RESERVED = re.compile(rf"index|.*-[0-9a-f]{{{_HASH}}}")  # what other URLs get


def file_of(url: str) -> str:
    """The file of a page."""
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.partition(":")
    *above, name = re.split("[?#]", path, maxsplit=1)[0].split("/")
    host, port = _NOT_IN_HOST.sub("-", host[:_HOST]), re.sub("[^0-9]", "-", port[:_PORT])
    top = host + ("" if scheme == "https" else "+http") + (f"+{port}" if port else "")
    folders, room = list[str](), _PATH - len(top) - _SEGMENT - 1
    for each in above[:_FOLDERS]:
        folder = _NOT_IN_FOLDER.sub("-", each[:_SEGMENT])
        room -= len(folder) + 1
        if room < 0:
            break
        folders.append(folder)
    name = _NOT_IN_NAME.sub("-", name[: _SEGMENT - len(".md")])
    place = host + (f":{port}" if port else "")
    read_back = f"{'https' if scheme == 'https' else 'http'}://{place}/{'/'.join([*folders, name])}"
    name, is_reserved = name or "index", _RESERVED.fullmatch(name) is not None
    if is_reserved or read_back != url:
        mark = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
        name = f"{name[: _SEGMENT - len('-.md') - _HASH]}-{mark}"
    return "/".join([top, *folders, f"{name}.md"])
