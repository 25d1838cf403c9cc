"""Answers of a child process as bytes, in any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.base.processes.frames import Answers, Report, answer


@given(st.lists(st.tuples(st.sampled_from(Report), st.booleans(), st.binary())), st.integers(1, 40))
def test_answers_come_in_any_pieces(told: list[tuple[Report, bool, bytes]], size: int) -> None:
    stream = b"".join(answer(kind, payload, ends=ends) for kind, ends, payload in told)
    answers, taken = Answers(), list[tuple[Report, bool, bytes]]()
    for at in range(0, len(stream), size):
        answers.add(stream[at : at + size], lambda *one: taken.append(one))
    assert taken == told
