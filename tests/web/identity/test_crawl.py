"""A crawl of hosts that want signatures, from outside: what servers get, and where the key is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from crawler.web.identity.keys import KeySet, key_from, write_key_file
from tests.needs import need
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, linked
from tests.web.identity.keys import AGENT, key_file, request, verifier

FAST = ("--allow-private", "--delay", "0.02", "--quiet")
KEYS = msgspec.json.encode(KeySet([key_from(b"1" * 32)], AGENT)).decode()
SECRET = "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE"  # the seed of ``key_file`` in Base64


class Guarded:
    """Pages that only signed requests get. ``nonces``: those of the requests that did."""

    def __init__(self) -> None:
        self.nonces: list[str] = []
        self.refused: list[str] = []
        self.failed_once = False

    def page(self, text: str, kind: str = "text/html") -> Callable[[web.Request], object]:
        async def answer(asked: web.Request) -> web.Response:
            if "Signature" not in asked.headers:
                self.refused.append(f"{asked.host}{asked.path}")
                headers = {"Accept-Signature": 'sig1=("@authority");tag="web-bot-auth"'}
                return web.Response(status=403, headers=headers, content_type="text/html")
            (result,) = verifier().verify(request(f"http://{asked.host}{asked.path}", asked.headers))
            assert result.nonce is not None
            self.nonces.append(result.nonce)
            if text == "fails once" and not self.failed_once:
                self.failed_once = True
                return web.Response(status=500)
            if text.startswith("http"):
                raise web.HTTPFound(text)
            return web.Response(text=text, content_type=kind)

        return answer


def settings(directory: Path) -> Path:
    key = key_file(directory).key
    config = directory / "crawl.toml"
    config.write_text(f'[identity]\nkey = "{key}"\n[retry]\nfirst_wait = 0.1\n[crawl]\nscope = "any"\n')
    return config


def test_pages_that_only_signed_requests_get(tmp_path: Path) -> None:
    guarded, pages = Guarded(), {}
    with Site(pages, ports=2) as site:
        site.robots = guarded.page("User-agent: *\nDisallow: /private\n", "text/plain")  # type: ignore[assignment]
        pages |= {
            "/": guarded.page(linked(["/moved", "/fails", "/private"])),
            "/moved": guarded.page(site.url("/there", 1)),
            "/there": guarded.page("<p>here"),
            "/fails": guarded.page("fails once"),
            "/private": guarded.page("<p>not for crawlers"),
        }
        ran = crawler(site.url("/"), "--job", tmp_path / "job", "--config", settings(tmp_path), *FAST)
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    ends = {row["url"]: (row["outcome"], row["status"]) for row in rows}
    assert ends == {
        site.url("/"): ("fetched", 200),
        site.url("/moved"): ("redirect", 302),
        site.url("/there", 1): ("fetched", 200),
        site.url("/fails"): ("fetched", 200),
        site.url("/private"): ("excluded", None),
    }, "robots.txt is obeyed though it was refused at first"
    assert sorted(guarded.refused) == sorted(f"{host}/robots.txt" for host in site.hosts), "one request a host"
    assert len(guarded.nonces) == len(set(guarded.nonces)) == len(site.asked) - 2, "each has its own signature"


def test_a_page_that_was_refused_is_asked_for_again(tmp_path: Path) -> None:
    guarded = Guarded()
    with Site({"/": guarded.page("<p>here")}) as site:
        job = tmp_path / "job"
        ran = crawler(site.url("/"), "--job", job, "--config", settings(tmp_path), "--output", "warc", *FAST)
        assert ran.code == 0, ran.err
        (row,) = [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
        assert (row["status"], row["tries"]) == (200, 1)
        assert [asked.path for asked in site.asked] == ["/robots.txt", "/", "/"]
        stats = crawler("stats", job, "--json")
    stored = b"".join(path.read_bytes() for path in job.rglob("*") if path.is_file())
    shown = f"{ran.out}{ran.err}{stats.out}{stats.err}"
    assert SECRET in (tmp_path / "identity.jwk").read_text()
    assert SECRET.encode() not in stored
    assert b"1" * 32 not in stored
    assert SECRET not in shown


def test_a_host_that_asks_for_signatures_is_known_after_a_restart(tmp_path: Path) -> None:
    guarded, pages = Guarded(), {}
    with Site(pages) as site:
        site.robots = guarded.page("", "text/plain")  # type: ignore[assignment]
        pages |= {"/": guarded.page(linked(["/a", "/b"])), "/a": guarded.page("a"), "/b": guarded.page("b")}
        words = (site.url("/"), "--job", tmp_path / "job", "--config", settings(tmp_path), *FAST)
        for most in ("1", "3"):
            ran = crawler(*words, "--max-pages", most)
            assert ran.code == 0, ran.err
    assert len(guarded.nonces) == 4
    assert len(guarded.refused) == 1, "only the first request of the first run is refused"


def test_a_running_crawl_takes_another_key_when_it_reads_its_settings_again(tmp_path: Path) -> None:
    seen, other = list[str](), key_from(b"2" * 32)

    async def answer(asked: web.Request) -> web.Response:
        seen.append(asked.headers.get("Signature-Input", ""))
        return web.Response(text=linked([f"/{len(seen)}"]), content_type="text/html")

    config, job = settings(tmp_path), tmp_path / "job"
    config.write_text(config.read_text().replace("[retry]", 'sign = "always"\n[retry]'))
    with (
        Site({"/": answer} | {f"/{n}": answer for n in range(5_000)}) as site,
        running(site.url("/"), "--job", job, "--config", config, *FAST) as process,
    ):
        wait_until(lambda: len(seen) > 2, "signed requests")
        write_key_file(tmp_path / "identity.jwk", KeySet([other], AGENT))
        assert crawler("reload", job).code == 0
        wait_until(lambda: other.kid in seen[-1], "requests with the other key")
        (tmp_path / "identity.jwk").write_text("{}")
        refused = crawler("reload", job)
        asked = len(seen)
        wait_until(lambda: len(seen) > asked + 1, "requests after it")
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        process.terminate()
    assert all(key_from(b"1" * 32).kid in each for each in seen[:3])
    assert other.kid in seen[-1], "a file that cannot be used changes nothing"


def test_the_requests_of_a_rendered_page_are_signed(tmp_path: Path) -> None:
    need("chromium-headless-shell", "chromium-headless-shell")
    guarded, pages = Guarded(), {}
    with Site(pages, ports=2) as site:
        data = site.url("/data", 1)
        pages |= {
            "/": guarded.page("<title>Shell</title><div id=root></div><script src=/app.js></script>"),
            "/app.js": guarded.page(
                f"fetch('{data}').then(a => a.text()).then(t => root.append(t))", "text/javascript"
            ),
            "/data": guarded.page("some words from another host", "text/plain"),
        }
        config = settings(tmp_path)
        config.write_text(f'{config.read_text()}[browser]\nwhen = "always"\nno_sandbox = true\nthird_parties = "any"\n')
        ran = crawler(site.url("/"), "--job", tmp_path / "job", "--config", config, "--max-pages", "1", *FAST)
    assert ran.code == 0, ran.err
    asked = [asked.path for asked in site.asked if asked.path != "/robots.txt"]
    assert asked == ["/", "/", "/app.js", "/data", "/data"], "each host refuses the first"
    assert len(guarded.nonces) == 3


def started(directory: Path, text: str) -> Ran:
    (directory / "crawl.toml").write_text(f"[identity]\n{text}\n")
    return crawler("http://127.0.0.1:9/", "--job", directory / "job", "--config", directory / "crawl.toml", *FAST)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (None, 0o600, "cannot read {key}: No such file or directory"),
        ('{"keys": [{"kty": "OKP", "crv": "Ed25519", "d": "c2VjcmV0"}]}', 0o600, "{key}: it holds no private"),
        ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n", 0o600, "{key}: it holds no private"),
        (KEYS.replace(SECRET, SECRET[:-1] + "F"), 0o600, "{key}: it holds no private"),
        (KEYS.replace(AGENT, "https://b\u00fc.test"), 0o600, "{key}: it holds no private"),
        (KEYS.replace('"x":"', '"x":"A'), 0o600, "{key}: it holds no private"),
        (SECRET, 0o644, "other users can read or change {key}; run chmod 600"),
        (SECRET, 0o620, "other users can read or change {key}; run chmod 600"),
        (KEYS.replace('"d":', '"exp":9,"d":'), 0o600, "no key in {key} is valid now"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_one_line(tmp_path: Path, text: str | None, mode: int, why: str) -> None:
    key = tmp_path / "key"
    if text is not None:
        key.write_text(text)
        key.chmod(mode)
    ran = started(tmp_path, f'key = "{key}"\nagent = "{AGENT}"')
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert why.format(key=key) in ran.err
    assert "c2VjcmV0" not in ran.err
    assert SECRET not in ran.err
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("text", ['sign = "always"', f'agent = "{AGENT}"', 'key = "/k"\nagent = "http://bot.example/"'])
def test_settings_that_lack_something_are_one_line(tmp_path: Path, text: str) -> None:
    ran = started(tmp_path, text)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "identity." in ran.err
