"""The path of the Markdown file of a page: relative, derived from the URL, with a folder for the host and one for each
folder of the URL.

No two URLs share a path, and no file has the name that another URL needs for a folder: either the URL can be
reconstructed from the path, or the file name ends in a part of the URL's hash; and no folder ends in ``.md``.
"""

from __future__ import annotations

import re
from hashlib import sha256

INDEX = "index.jsonl"  # next to the folders of the hosts

_SEGMENT, _FOLDERS, _PATH = 80, 12, 240  # maxima: bytes of a folder or file name, folders, bytes of a path
# Characters (hash: hexadecimal digits). For 10^8 pages, the chance of a collision is 1 in 4,000.
_HOST, _PORT, _HASH = 60, 5, 16
_NOT_IN_HOST = re.compile(r"[^a-z0-9._-]|^\.|^\Z|\.(?=jsonl\Z)")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._~@,()+=%-]|^\.")
_NOT_IN_FOLDER = re.compile(rf"{_NOT_IN_NAME.pattern}|^\Z|\.(?=md\Z)")
_RESERVED = re.compile(rf"index|.*-[0-9a-f]{{{_HASH}}}")  # names that other URLs get


def file_of(url: str) -> str:
    """Return the path of a page's file."""
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
