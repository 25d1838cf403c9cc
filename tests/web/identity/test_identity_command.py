"""``crawler identity``: what it makes, served from loopback, and what it finds wrong."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import astuple

from crawler.web.identity.directory import MEDIA_TYPE, PATH, faults, response_headers
from crawler.web.identity.directory import directory as listing
from crawler.web.identity.keys import DAY, key_at, key_from, read_key_file, thumbprint
from tests.asked import free_port
from tests.needs import need
from tests.program import Ran, crawler, wait_until
from tests.site import Handler, Site
from tests.web.fetch.nginx import TEMPORARY
from tests.web.identity.keys import request, verifier

WORDS = ("--agent", "https://bot.example:8443", "--contact", "<a@bot.example>")


def made(directory: Path, *words: str) -> Ran:
    return crawler("identity", "new", directory, *words)


def headers_of(directory: Path) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in (directory / "headers.txt").read_text().splitlines())


def test_a_new_identity(tmp_path: Path) -> None:
    ran = made(tmp_path / "id", *WORDS, "--token", "examplebot")
    assert ran.code == 0, ran.err
    key = tmp_path / "id" / "identity.jwk"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    private = json.loads(key.read_text())["keys"][0]["d"]
    others = [path for path in (tmp_path / "id").rglob("*") if path.is_file() and path != key]
    assert len(others) == 3
    assert not any(private in path.read_text() for path in others)
    assert private not in ran.out
    (listed,) = json.loads((tmp_path / "id" / "public" / PATH[1:]).read_text())["keys"]
    assert (listed["kty"], listed["crv"], listed["kid"]) == ("OKP", "Ed25519", thumbprint(listed["x"]))
    assert listed["exp"] - listed["nbf"] == 365 * DAY
    headers = headers_of(tmp_path / "id")
    assert headers["Content-Type"] == MEDIA_TYPE
    page = (tmp_path / "id" / "public" / "index.html").read_text()
    assert "User-agent: examplebot\nDisallow: /<" in page
    assert "&lt;a@bot.example&gt;" in page


def test_the_directory_verifies_for_its_authority(tmp_path: Path) -> None:
    made(tmp_path, *WORDS)
    keys, agent = astuple(read_key_file(tmp_path / "identity.jwk"))
    assert agent == "https://bot.example:8443"
    asked = request(f"{agent}{PATH}", {})
    answer = SimpleNamespace(status_code=200, headers=headers_of(tmp_path), request=asked)
    (result,) = verifier(*keys).verify(
        answer, expect_tag="http-message-signatures-directory", require_components=('"@authority";req',)
    )
    assert result.parameters["keyid"] == keys[0].kid


def test_a_key_is_replaced_with_an_overlap(tmp_path: Path) -> None:
    made(tmp_path, *WORDS)
    about = tmp_path / "public" / "index.html"
    about.write_text("mine")
    (first,) = read_key_file(tmp_path / "identity.jwk").keys
    assert made(tmp_path).code == 0
    keys, agent = astuple(read_key_file(tmp_path / "identity.jwk"))
    assert keys[0].kid == first.kid
    begins = keys[1].nbf
    assert timedelta(seconds=begins - first.nbf) >= timedelta(days=1)
    assert [key_at(keys, moment).kid for moment in (begins - 1, begins)] == [key.kid for key in keys]  # type: ignore[union-attr]
    listed = json.loads((tmp_path / "public" / PATH[1:]).read_text())["keys"]
    assert [key["kid"] for key in listed] == [key.kid for key in keys]
    answer = SimpleNamespace(status_code=200, headers=headers_of(tmp_path), request=request(f"{agent}{PATH}", {}))
    assert len(verifier(*keys).verify(answer, expect_tag="http-message-signatures-directory")) == 2
    assert about.read_text() == "mine", "what was edited stays"
    before = headers_of(tmp_path)["Signature"]
    assert made(tmp_path, "--sign-only").code == 0
    assert len(read_key_file(tmp_path / "identity.jwk").keys) == 2
    assert headers_of(tmp_path)["Signature"] != before


@pytest.mark.parametrize(
    "words",
    [
        (),
        WORDS[:2],
        WORDS[2:],
        ("--agent", "http://bot.example", *WORDS[2:]),
        (*WORDS[:2], "--sign-only"),
        (*WORDS, "--sign-only"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = made(tmp_path / "id", *words)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert not (tmp_path / "id").exists()


def served(body: str, headers: Mapping[str, str], status: int = 200) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body.encode(), headers=headers, status=status)

    return answer


def test_a_served_directory_is_checked(tmp_path: Path) -> None:
    pages: dict[str, str | Handler] = {}
    with Site(pages) as site:
        made(tmp_path, "--agent", f"https://{site.hosts[0]}", "--contact", "x")
        body, headers = (tmp_path / "public" / PATH[1:]).read_text(), headers_of(tmp_path)
        pages[PATH] = served(body, headers)
        good = crawler("identity", "check", site.url(PATH))
        pages[PATH] = served(body, {"Content-Type": "application/json"})
        bad = crawler("identity", "check", site.url("/"))
        pages.clear()
        missing = crawler("identity", "check", site.url("/"))
    gone = crawler("identity", "check", site.url("/"))
    assert (good.code, len(good.out.splitlines())) == (0, 1), good.out
    assert (bad.code, len(bad.out.splitlines())) == (1, 2), "the media type, and no signature"
    assert (missing.code, missing.out) == (1, f"{site.url(PATH)}: status 404 instead of 200\n")
    assert (gone.code, len(gone.out.splitlines())) == (1, 1)


def test_nginx_serves_it_with_what_was_written(tmp_path: Path) -> None:
    program, home = need("nginx", "nginx-light"), tmp_path / "id"
    port = free_port()
    assert made(home, "--agent", f"https://127.0.0.1:{port}", "--contact", "x").code == 0
    assert made(home).code == 0
    paths = "".join(f"{name}_temp_path {tmp_path}/{name};\n" for name in TEMPORARY)
    added = [f"add_header {name} '{value}';" for name, value in headers_of(home).items() if name != "Content-Type"]
    where = f"location = {PATH} {{ default_type {MEDIA_TYPE}; {' '.join(added)} }}"
    server = f"server {{ listen 127.0.0.1:{port}; root {home}/public; {where} }}"
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;\n"
        f"events {{}}\nhttp {{\n{paths} access_log off;\n {server}\n}}\n"
    )
    with subprocess.Popen([program, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"]) as process:
        try:
            wait_until(lambda: crawler("identity", "check", f"http://127.0.0.1:{port}").code == 0, "the directory")
        finally:
            process.terminate()


ONE, TWO, NOW, HOST = key_from(b"1" * 32, 0, 1_000), key_from(b"2" * 32, 0, 2_000), 500.0, "bot.example"


PUBLIC, OTHER = [json.loads(listing([key]))["keys"][0] for key in (ONE, TWO)]


def found(keys: list[Any] | bytes, signed: Mapping[str, str], host: str = HOST, now: float = NOW) -> list[str]:
    body = keys if isinstance(keys, bytes) else json.dumps({"keys": keys}).encode()
    return list(faults(200, signed, body, host, now))


def test_what_can_be_wrong_with_a_directory() -> None:
    agent = f"https://{HOST}"
    one, both = response_headers([ONE], agent, NOW), response_headers([ONE, TWO], agent, NOW)
    assert found(listing([ONE]), one) == []
    assert found(listing([ONE, TWO]), both) == []
    assert found(listing([ONE]), one | {"Content-Type": f"{MEDIA_TYPE}; charset=utf-8"}) == []
    wrong = {
        "JSON": found(b"<html>", one),
        "length >= 1": found([], one),
        "PRIVATE": found([PUBLIC | {"d": ONE.d}], one),
        "RSA": found([{"kty": "RSA", "n": "x"}], one),
        "thumbprint": found([PUBLIC | {"kid": "mine"}], one),
        f"{TWO.kid}: no header": found([PUBLIC, OTHER], one),
        "valid now and for www.bot.example": found([PUBLIC], one, "www.bot.example"),
        "valid now and for bot.example": found([PUBLIC | {"exp": 9_000}], one, now=1_000.0),
        "it has expired": found([PUBLIC | {"exp": 499}], one),
        "media type": found([PUBLIC], one | {"Content-Type": "text/plain"}),
    }
    for words, lines in wrong.items():
        assert any(words in line for line in lines), (words, lines)
        assert len(lines) == 1, lines
    inputs = one["Signature-Input"]
    for other in ("", inputs.replace(";req", "", 1), inputs.replace("-directory", "-dir")):
        assert ["no header" in line for line in found([PUBLIC], one | {"Signature-Input": other})] == [True]


@pytest.mark.parametrize(
    "jwk",
    [{"x": "\ud800"}, {"x": 7}, {"x": "é"}, {"exp": 10**400}, {"exp": "soon"}, {"kid": "\x1b[2J\n"}, {"kid": ["a"]}],
)
def test_a_hostile_directory_is_wrong_and_no_crash(jwk: dict[str, Any]) -> None:
    agent = f"https://{HOST}"
    body = json.dumps({"keys": [PUBLIC | jwk]})
    signed = response_headers([ONE], agent, NOW)
    late = {"Signature-Input": signed["Signature-Input"].replace("expires=1000", f"expires={'9' * 5_000}")}
    for headers in (signed, signed | late, signed | {"Signature": "binding0=:\udcff:"}, signed | {"Signature": ""}):
        lines = list(faults(200, headers, body.encode(), HOST, NOW))
        assert lines or jwk == {"exp": 10**400}
