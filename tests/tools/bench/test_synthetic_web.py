"""The synthetic web is the same for the same seed, and its truth is what can be reached."""

from __future__ import annotations

import hashlib
from ipaddress import IPv4Address
from urllib.parse import urldefrag, urljoin, urlsplit

from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawler.tools.bench.synthetic_web import (
    Kind,
    Mode,
    Shape,
    SyntheticWeb,
)

PORT = 8080


@st.composite
def shapes(draw: st.DrawFn, most: int = 120) -> Shape:
    hosts = draw(st.integers(1, 20))
    pages = draw(st.integers(hosts, most))
    return Shape(pages, hosts, draw(st.integers(0, 2**63 - 1)), draw(st.sampled_from(Mode)), PORT)


def links_of(web: SyntheticWeb, url: str) -> list[str]:
    """What an answer leads to, as a crawler reads it. The hosts are those of the seeds."""
    parts = urlsplit(url)
    host = [urlsplit(seed).netloc for seed in web.seeds].index(parts.netloc)
    answer = web.answer(host, parts.path)
    if answer.location is not None:
        return [urljoin(url, answer.location)]
    nodes = LexborHTMLParser(answer.body.decode()).css("a[href]") if answer.status == 200 else []
    return [urldefrag(urljoin(url, node.attributes["href"] or "")).url for node in nodes]


def reached(web: SyntheticWeb) -> set[str]:
    found, waiting = set(web.seeds), web.seeds
    while waiting:
        for link in links_of(web, waiting.pop()):
            if link not in found:
                found.add(link)
                waiting.append(link)
    return found


@given(shapes())
def test_what_can_be_reached_is_the_truth(shape: Shape) -> None:
    web = SyntheticWeb(shape)
    truth = [url for url, _ in web.urls()]
    assert len(set(truth)) == len(truth)
    assert reached(web) == set(truth)


def test_bytes_do_not_depend_on_the_machine() -> None:
    """Recorded figures belong to these bytes: a change of the web needs a new name for them."""
    digests = {}
    for mode in Mode:
        web = SyntheticWeb(Shape(5_000, 20, 7, mode, PORT))
        digest = hashlib.sha256()
        for number in range(0, 5_000, 500):
            digest.update(web.url(number).encode())
            digest.update(web.page(number))
        digests[mode.value] = digest.hexdigest()[:16]
    assert digests == {"web": "719e4db0b235bd74", "chains": "04ed3de86a5c7f36"}


@given(shapes(), st.data())
def test_a_url_has_one_place(shape: Shape, data: st.DataObject) -> None:
    web = SyntheticWeb(shape)
    number = data.draw(st.integers(0, shape.pages - 1))
    for kind in Kind:
        if kind in web.expected(number):
            assert web.locate(web.url(number, kind)) == (number, kind)
        else:
            assert web.locate(web.url(number, kind)) is None
    url = web.url(number)
    port = f":{PORT}/"
    for changed in (
        url + "x",
        url + "?",
        url.replace("http:", "https:"),
        url.replace(port, ":8081/"),
        url + "/-0.html",
    ):
        assert web.locate(changed) is None
    assert web.locate(url.replace(port, f"{port}0")) is None


@given(shapes())
def test_every_link_stays_on_loopback(shape: Shape) -> None:
    web = SyntheticWeb(shape)
    for url, _ in web.urls():
        for link in (url, *links_of(web, url)):
            parts = urlsplit(link)
            assert parts.scheme == "http"
            assert parts.port == PORT
            assert IPv4Address(parts.hostname or "").is_loopback
