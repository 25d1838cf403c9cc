"""Rows of edges: what each says, in the order of the page."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from crawler.web.extract.edges import USUAL, Edge, Facts, edge_rows, facts_of

FACTS = st.one_of(
    st.just(USUAL),
    st.builds(facts_of, st.sampled_from(("a", "img", "header")), st.text(), st.sampled_from((None, "off_scope"))),
    st.one_of(st.floats(0, 1), st.sampled_from((0, 1, 0.0, 1.0))).map(lambda score: Facts(score=score)),
)
EDGES = st.lists(st.tuples(st.text(), st.text(), FACTS))


def written(href: str, edges: Sequence[Edge]) -> list[str]:
    """The rows as json writes them."""
    rows = []
    for to, text, (kind, rel, why, score) in edges:
        row: dict[str, object] = {"from": href, "to": to, "kind": kind}
        row |= {name: value for name, value in (("text", text), ("rel", rel)) if value}
        row |= {} if score is None else {"score": round(score, 6)}
        row |= {"in_scope": True} if why is None else {"in_scope": False, "why": why}
        rows.append(json.dumps(row, separators=(",", ":")) + "\n")
    return rows


@given(href=st.text(), edges=EDGES)
def test_rows_are_what_json_writes(href: str, edges: list[Edge]) -> None:
    assert edge_rows(href, edges).decode("ascii") == "".join(written(href, edges))


@given(href=st.text(), edges=EDGES, odd=st.sampled_from(('"', "\\", "\n", "\x7f", "é", "\U0001f600", "\ud800")))
def test_one_odd_text_changes_no_other_row(href: str, edges: list[Edge], odd: str) -> None:
    rows = edge_rows(href, [*edges, ("http://h.test/", odd, USUAL)]).decode("ascii")
    assert rows == edge_rows(href, edges).decode("ascii") + written(href, [("http://h.test/", odd, USUAL)])[0]


def test_scores_that_are_equal_are_written_as_they_are() -> None:
    edges: list[Edge] = [("http://h.test/", "", Facts(score=score)) for score in (1, 1.0, 0, 0.0)]
    scores = [
        row.split('"score":')[1].split(",")[0] for row in edge_rows("http://h.test/", edges).decode().splitlines()
    ]
    assert scores == ["1", "1.0", "0", "0.0"]
