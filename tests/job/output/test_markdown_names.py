"""The file of a page: safe, and never that of another page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from crawler.job.markdown_files import file_of

_SAFE = re.compile(r"[A-Za-z0-9_~@,()+=%-][A-Za-z0-9._~@,()+=%-]{0,79}")
_PIECES = st.from_regex(
    r"(|x y|[aAb]|\.|\.\.|\.a|a\.md|md|index|index\.md|-|a-0123456789abcdef|%2e|caf%C3%A9|a\+http|a[!|:]b|x{76,90})\Z"
)
_HOSTS = st.from_regex(r"(a|a\.md|index\.jsonl|a\+http|a\+81|\[::1\]|u@a|\.cursor|a\.|(b\.){40}c)\Z")
_URLS = st.builds(
    lambda scheme, host, port, path, query: f"{scheme}://{host}{port}/{'/'.join(path)}{query}",
    st.sampled_from(["http", "https"]),
    _HOSTS,
    st.sampled_from(["", ":81", ":8080"]),
    st.lists(_PIECES, min_size=1, max_size=16),
    st.sampled_from(["", "", "", "?", "?a", "?b/c"]),
)


@given(st.lists(_URLS, max_size=8), _URLS, st.data())
def test_no_two_urls_share_a_file(urls: list[str], url: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(8, len(url)))
    other = url[:at] + data.draw(st.sampled_from("aA./-?%:")) + url[at + data.draw(st.integers(0, 1)) :]
    named = f"{url.partition('?')[0]}-{file_of(url)[-19:-3]}"  # made to look like the name of the other
    files = [file_of(each) for each in dict.fromkeys([*urls, url, other, named, url.lower(), url + "/"])]
    folders = {"/".join(parts[:end]) for file in files if (parts := file.split("/")) for end in range(1, len(parts))}
    assert len(files) == len(set(files))
    assert not folders & {*files, "index.jsonl"}  # all of them can be there at once
    for file in files:
        assert len(file) <= 240
        assert len(file.split("/")) <= 14
        assert all(_SAFE.fullmatch(part) for part in file.split("/")), file
