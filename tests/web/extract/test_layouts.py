"""The main text of layouts that are no articles, and of languages with other letters: not much worse than it was.

``benchmarks/text.py`` shows what other extractors make of them.
"""

from __future__ import annotations

import pytest

from benchmarks.text import Page, layouts, ours, score, shingles

FLOORS = {"forum": 0.8, "question": 0.7}  # names, votes and dates are between the posts


@pytest.mark.parametrize("page", layouts(), ids=lambda page: page.name)
def test_most_of_the_text_is_found_and_little_else(page: Page) -> None:
    found = score(shingles(page.truth), shingles(ours()(page.html)))
    assert found.f1 >= FLOORS.get(page.name, 0.88)
