"""Pages that need their scripts have signs of it; short pages, forms, galleries and rendered pages have none."""

from __future__ import annotations

import pytest

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.extract import extract_links
from crawler.web.links.script_signs import SIZE_MOST, signs_of
from crawler.web.links.tokens import Undecided, token_links

BUNDLE = "<script src=/static/js/main.3b1e.js></script>"
GA = "<script>(function(i,s,o,g){a=s.createElement(o);a.src=g})(window,document,'script','//x/ga.js')</script>"
INTRO = "All the many products of this shop by name, the newest first"
HIDDEN = [
    "<noscript>You need to enable JavaScript.</noscript><div id=app></div><script type=module src=/a.js></script>",
    "<app-root>Loading...</app-root><script src=main.js></script>",
    "<a href=/>Home</a> <main id=app></main><footer>&copy; Example Inc., all rights reserved</footer>" + BUNDLE,
    "<div id=root><a v-for='u in items' :href='u'>{{u}}</a></div><script src=/vue.js></script>",
    "<div hx-get=/part hx-trigger=load>loading</div><script src=/htmx.js></script>",
    "<link-list></link-list><script>define('link-list',class{f(){this.innerHTML='<a href=/>'}})</script>",
    "<ul id=list></ul><script>$.getJSON('/api',l=>$('#list').html(l))</script>",
    "<script>for(i=0;i<9;i++)document.write('<a href=/w/'+i+'>x</a>')</script>",
    "<h1>Items</h1><ul id=list></ul><script src=/js/site.js></script>",
    "<a href=/>Home</a> <a href=/a>About us</a> <div id=content>Loading&hellip;</div>" + GA,
    f"<div id=app><h1>{INTRO}</h1><div id=root></div></div>{BUNDLE}",
    f"<p>{INTRO}</p><ul id=all></ul><script>x('#all').html('<a href=/')</script>",
    "<my-list><template shadowrootmode=open><a href=/s/1>x</a></template></my-list>",
    "<p>A frame</p><iframe srcdoc='<a href=/i/1>x</a>'></iframe>",
]
SHOWN = [
    "<h1>It works!</h1>" + GA,
    "<p>Time</p><div id=list></div><script>document.querySelector('#list').innerHTML=new Date()</script>",
    "<h1>Post</h1><div id=disqus_thread></div><noscript>Please enable JavaScript for comments.</noscript>" + GA,
    "<form>User <input name=u> Password <input type=password></form><div id=app></div>" + BUNDLE,
    "<img src=/1.jpg><img src=/2.jpg><img src=/3.jpg><div id=app></div>" + BUNDLE,
    "<script>window.location.href='/new'</script><div id=list></div>",
    f"<meta http-equiv=refresh content='0;url=/new'><div id=root></div>{BUNDLE}",
    "<div id=__next><div><h1>Hello</h1></div></div><script src=/_next/static/main.js></script>",
    f"<app-root><p>{INTRO}</p><i id=x></i></app-root><script src=main.js></script>",
    "<h1>We will be back soon</h1>" + BUNDLE,
    f"<div id=root></div>{'<p>A paragraph of text of a page.</p>' * 9}{BUNDLE}",
]


def signs(html: str) -> tuple[str, ...]:
    body = f"<!doctype html><html><head><title>A title of a page</title></head><body>{html}</body></html>".encode()
    read = (extract_links(body, None, LinkSettings()), token_links(body, None, LinkSettings()))
    links = [each for each in read if not isinstance(each, Undecided)]
    (found,) = {signs_of(body, len(each.hrefs), moves=each.refresh is not None) for each in links}
    return found


@pytest.mark.parametrize(("html", "needs"), [*((html, True) for html in HIDDEN), *((html, False) for html in SHOWN)])
def test_only_what_shows_nothing_has_signs(html: str, needs: bool) -> None:
    found = signs(html)
    assert (found[:1] == ("text",) and len(found) > 1) if needs else found == ()


@pytest.mark.parametrize(
    "piece", [b"<", b'"', b"&nbsp;", b"src=", b"<i>", b"<!--", b"<script>", b"<div id=a", b"location ", b'<a b="']
)
def test_no_page_takes_long(piece: bytes) -> None:
    signs_of(b"<script " + piece * (SIZE_MOST // len(piece)), 0)
