"""Walls: what is told for one, and what is not."""

from __future__ import annotations

from html import escape

import pytest

from crawler.frontier.traps.challenges import (
    BODY_MOST,
    LINKS_MOST,
    challenge_by_headers,
    challenge_by_markup,
    login_page,
)

PAGES = {
    "challenge of Cloudflare": (
        '<html><head><title>Just a moment...</title></head><body><script>window._cf_chl_opt={cvId:"3"};var a=document.'
        "createElement('script');a.src='/cdn-cgi/challenge-platform/h/g/orchestrate/chl_page/v1'</script></body></html>"
    ),
    "challenge of Anubis": (
        "<html><head><title>Making sure you&#39;re not a bot!</title>"
        '<script id="anubis_version" type="application/json">"v1.27.0"</script>'
        '<script id="anubis_challenge" type="application/json">{"rules":{"difficulty":4}}</script></head></html>'
    ),
    "challenge of AWS WAF": (
        "<html><script>window.awsWafCookieDomainList=[];window.gokuProps={};</script>"
        '<script src="https://a.b.token.awswaf.com/a/b/challenge.js"></script></html>'
    ),
    "challenge of DataDome": (
        "<html><head><title>h.test</title></head><body><script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}"
        '</script><script src="https://ct.captcha-delivery.com/c.js"></script></body></html>'
    ),
    "challenge of HUMAN": '<html><script>window._pxAppId="PX1";</script><div id="px-captcha"></div></html>',
    "challenge of Sucuri": (
        "<html><title>You are being redirected...</title><script>sucuri_cloudproxy_js='';</script></html>"
    ),
    "denial of Imperva": (
        '<html><iframe src="/_Incapsula_Resource?CWUDNSAI=1&incident_id=2">Request unsuccessful. '
        "Incapsula incident ID: 2-3</iframe></html>"
    ),
}


@pytest.mark.parametrize("by", PAGES)
def test_the_markup_of_a_wall_is_told(by: str) -> None:
    body = PAGES[by].encode()
    challenge = challenge_by_markup(body, 1)
    assert challenge is not None
    assert challenge.by == by
    assert str(by) in challenge.words
    has_sign_in_head = b"<head>" in body and by != "challenge of DataDome"
    assert (
        challenge_by_markup(body.replace(b"</head>", b"</head>" + b" " * BODY_MOST), 1) is not None
    ) >= has_sign_in_head


@pytest.mark.parametrize("by", PAGES)
def test_a_page_about_a_wall_is_none(by: str) -> None:
    body = PAGES[by].encode()
    assert challenge_by_markup(f"<h1>What {by} sends</h1><pre>{escape(PAGES[by])}</pre>".encode(), 1) is None
    assert challenge_by_markup(body, LINKS_MOST + 1) is None, "a page that embeds the script of a maker of walls"
    assert challenge_by_markup(b"<head></head>" + body + b" " * BODY_MOST, 1) is None, "an article that shows it"
    assert challenge_by_markup(b"<head></head>" + body + b" " * BODY_MOST, 0) is not None, "it leads nowhere"
    assert challenge_by_markup(body[: len(body) // 2], 1) is None, "half of it"


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"cf-mitigated": "challenge"}, "challenge of Cloudflare: cf-mitigated: challenge"),
        ({"x-amzn-waf-action": " Captcha"}, "challenge of AWS WAF: x-amzn-waf-action: captcha"),
        ({"cf-mitigated": "block"}, None),
        ({"cf-ray": "8f2b3c4d5e6f7-SJC", "server": "cloudflare"}, None),
        ({}, None),
    ],
)
def test_headers_that_name_a_wall(headers: dict[str, str], words: str | None) -> None:
    challenge = challenge_by_headers(lambda name: (headers[name],) if name in headers else ())
    assert (None if challenge is None else challenge.words) == words


FORM = b'<form action=/login method=post><input name=user><INPUT name=pass Type="Password"></form>'


@pytest.mark.parametrize(
    ("href", "redirects", "body", "told"),
    [
        ("http://h.test/login?next=/private/page", 1, FORM, True),
        ("http://h.test/login?a=b&ReturnUrl=%2Fprivate", 2, FORM, True),
        ("http://sso.test/cas?service=https%3A%2F%2Fh.test%2F", 1, FORM, True),
        ("http://h.test/login?next=/private/page", 0, FORM, False),
        ("http://h.test/login", 1, FORM, False),
        ("http://h.test/list?next=2", 1, FORM, False),
        ("http://h.test/login?text=/private", 1, FORM, False),
        ("http://h.test/login?next=/private/page", 1, b"<form><input type=text></form>", False),
    ],
)
def test_a_form_to_which_a_redirect_led(href: str, redirects: int, body: bytes, told: bool) -> None:
    assert (login_page(href, redirects, body) is not None) == told
