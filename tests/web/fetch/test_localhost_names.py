"""Names below ``localhost`` are this machine's, whatever the name servers say (RFC 6761, 6.3)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.program import crawler
from tests.site import Site, linked


def crawled(site: Site, folder: Path, *words: str) -> list[tuple[str, int | None, str | None]]:
    folder.mkdir()
    (folder / "seeds.txt").write_text(f"http://shop.of.localhost:{site.hosts[0].split(':')[1]}/\n")
    crawler(folder / "seeds.txt", "--job", folder / "job", "--delay", "0", "--quiet", *words)
    found = [json.loads(line) for line in (folder / "job" / "pages.jsonl").read_text().splitlines()]
    return [(record["outcome"], record["status"], record.get("address")) for record in found]


def test_they_are_asked_without_a_name_server_and_only_if_private_hosts_may_be(tmp_path: Path) -> None:
    with Site({"/": linked(["/a"]), "/a": "here"}) as site:
        assert crawled(site, tmp_path / "allowed", "--allow-private") == [("fetched", 200, "127.0.0.1")] * 2
        assert crawled(site, tmp_path / "refused") == [("excluded", None, None)]
