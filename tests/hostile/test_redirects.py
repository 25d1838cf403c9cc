"""Hosts that send the crawl in circles."""

from __future__ import annotations

import re

from tests.hostile.server import Answer, page, redirect
from tests.hostile.web import EVIL, Hostile
from tests.site import linked


def test_redirects_without_end(hostile: Hostile) -> None:
    """A chain of 10,000, one to itself with another query each time, one to itself, and one to a URL of 200 KB."""

    def answer(path: str) -> Answer | None:
        if step := re.fullmatch(r"/chain/(\d+)", path):
            number = int(step[1]) + 1
            return redirect(f"/chain/{number}") if number < 10_000 else page("the end")
        if turn := re.fullmatch(r"/turn\?n=(\d+)", path):
            return redirect(f"?n={int(turn[1]) * 7 + 1}", "307 Temporary Redirect")
        start = page(linked(["/chain/0", "/turn?n=0", "/self", "/long", "/ok"]))
        fixed = {
            "/": start,
            "/self": redirect("/self", "301 Moved Permanently"),
            "/long": redirect("/" + "x" * 200_000),
            "/ok": page("still here"),
        }
        return fixed.get(path)

    hostile.pages[EVIL] = answer
    rows = hostile.crawl().of()
    assert rows["/ok"]["outcome"] == "fetched"
    for begin in ("/chain/", "/turn"):
        followed = [row for path, row in rows.items() if path.startswith(begin)]
        assert len(followed) == 11
        assert all(row["outcome"] == "redirect" for row in followed)
        left = "redirect number 11 in a row: not followed (fetch.max_redirects)"
        assert [row["error"] for row in followed if row["error"]] == [left]
    assert rows["/self"]["outcome"] == "redirect"
    assert hostile.server.count("/self") == 1
    assert rows["/long"]["outcome"] == "redirect"
    assert "links.max_url_length" in rows["/long"]["error"]
    assert len(rows["/long"]["location"]) <= 2_048, "a record does not grow with what a server sends"
