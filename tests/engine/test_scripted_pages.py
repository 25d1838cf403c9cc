"""Pages that need scripts are counted by host, and no other page is."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import asdict, replace

from crawler.base.kv import Family
from crawler.frontier.host import stored_host
from crawler.frontier.host_status import ScriptedHosts
from crawler.job.metrics.pooled_stats import Part, pool
from tests.job.metrics.test_pooled_stats import whole
from tests.jobs import rows
from tests.laboratory import Laboratory, links
from tests.simulated_web import page

SHELL = "<title>shop</title><div id=root></div><script type=module src=/app.js></script>"


def test_pages_that_need_scripts_are_counted_by_host(tmp_path: Path) -> None:
    pages = {f"http://shop.test/{n}": SHELL + f"<!-- {n} -->" for n in range(3)}
    pages |= {"http://shop.test/": links([*(f"/{n}" for n in range(3)), "/gone", "http://docs.test/"])}
    docs = [f"/{n}" for n in range(8)]
    pages |= {"http://docs.test/": links([*docs, "/app"]), "http://docs.test/app": SHELL}
    pages |= {f"http://docs.test{path}": f"a short page, {path}" for path in docs}
    pages["http://shop.test/gone"] = replace(page(SHELL), status=404)
    lab = Laboratory(tmp_path / "job", pages)
    lab.run("http://shop.test/", "http://docs.test/")
    flagged = {row["url"] for row in rows(tmp_path / "job") if row.get("needs_scripts", [])[:1] == ["text"]}
    assert flagged == {*(f"http://shop.test/{n}" for n in range(3)), "http://docs.test/app"}
    hosts = ScriptedHosts()
    for key, value in lab.store.rows(Family.HOSTS):
        tally = stored_host(value).tally
        hosts.add(key.decode(), tally.pages, tally.scripted)
    shop = {"host": "shop.test:80", "pages": 3, "of": 4}
    assert asdict(hosts) == {"count": 1, "named": [shop]}, "one page of ten does not make a host of it"
    parts = [Part(number, whole(hosts_need_browser=asdict(hosts))) for number in range(2)]
    assert pool(parts, 2)["hosts_need_browser"] == {"count": 2, "named": [shop, shop]}
