"""``--output markdown`` of the whole program: one file a page, whatever ends the crawl, and the export of the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawler.job.markdown_files import CURSOR, file_of
from tests.outputs import parts_of
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, linked

PAGES = 80


def article(number: int, words: str = "first") -> str:
    links = linked(f"/dir/{each}" for each in range(number * 5 + 1, min(PAGES, number * 5 + 6)))
    return f"{links}<main><h1>Page {number}</h1><p>The {words} words.</p></main>"


def files_of(target: Path) -> dict[str, str]:
    """The files but for the cursor, by name. The index has one line for each page among them."""
    found = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    del found[CURSOR]
    lines = [json.loads(line) for line in found.pop("index.jsonl").splitlines()]
    assert sorted(line["file"] for line in lines) == sorted(found)
    for line in lines:
        text = found[line["file"]]
        assert f'url: "{line["url"]}"\n' in text
        assert line["bytes"] == len(text.encode())
    return found


def latest(job: Path) -> dict[str, dict[str, Any]]:
    """The last row of each page that is not gone."""
    lines = (line for path in sorted((job / "text").iterdir()) for line in path.read_bytes().splitlines())
    rows = {row["url"]: row for row in map(json.loads, lines)}
    return {url: row for url, row in rows.items() if not row.get("gone")}


@pytest.mark.timeout(120)
def test_kills_revisits_and_exports(tmp_path: Path) -> None:
    job, out, config = tmp_path / "job", tmp_path / "out", tmp_path / "crawl.toml"
    config.write_text("[durability]\ncheckpoint_interval = 1\n")
    pages = {"/": article(0)} | {f"/dir/{number}": article(number) for number in range(1, PAGES)}
    with Site(pages, latency=0.01) as site:
        words: list[Any] = [site.url("/"), "--job", job, "--config", config, "--delay", "0", "--per-host", "4"]
        words += ["--output", "markdown", "--allow-private", "--ignore-robots"]
        for least in (30, 60):
            with running(*words) as process:
                wait_until(lambda least=least: len(site.asked) >= least and (job / "markdown").exists(), "pages")
                process.kill()
                process.wait()

        def ended() -> Ran:
            ran = crawler(*words)
            assert ran.code == 0, ran.err
            rows, found = latest(job), files_of(job / "markdown")
            assert len(found) == len(rows)
            for url, row in rows.items():
                assert found[file_of(url)].endswith(f"---\n\n{row['markdown'].rstrip()}\n")
            exported = crawler("export", job, "--markdown", out)
            assert exported.code == 0, exported.err
            assert files_of(out) == found
            return ran

        ran = ended()
        assert f"{PAGES} files" in ran.err
        assert len(parts_of(job, "text")) == PAGES == len(latest(job))
        del pages["/dir/7"]
        pages["/dir/8"] = article(8, "second")
        assert crawler("retry", job, site.url("/dir/7"), site.url("/dir/8")).code == 0
        ended()
        cursor = job / "markdown" / CURSOR
        cursor.write_bytes(cursor.read_bytes()[:-3])
        assert [crawler(*words).code, crawler("verify", job).code, crawler("repair", job).code] == [2, 1, 0]
        ended()
        for lost in (cursor, job / "markdown" / "index.jsonl", next((job / "markdown").rglob("*.md"))):
            lost.rename(tmp_path / "lost")
            assert crawler("verify", job).code == 1
            (tmp_path / "lost").rename(lost)
        (job / "markdown").rename(tmp_path / "lost")
        (job / "markdown").touch()
        assert [crawler("verify", job).code, crawler("repair", job).code] == [1, 0]
        ended()
        found = files_of(out)
        assert len(found) == PAGES - 1
        assert sum("The second words." in text for text in found.values()) == 1
