"""Whose turn it is among the runs of a worker, and which are looked at."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from crawler.engine.rota import Rota, Times


def test_each_is_looked_at_when_it_joins_is_touched_or_its_time_has_come() -> None:
    rota = Rota[str]()
    rota.join("a")
    rota.join("b")
    assert rota.due(0.0) == ["a", "b"]
    rota.looked("a", inf)
    rota.looked("b", 30.0)
    assert rota.due(0.0) == []
    rota.touch("a")
    assert rota.due(0.0) == ["a"]
    rota.looked("a", inf)
    rota.waits("a", 10.0, inf)
    rota.waits("b", inf, 30.0)
    assert (rota.first(), rota.next_time, rota.next_limit) == (None, 10.0, 30.0)
    assert rota.due(9.9) == []
    assert rota.due(10.0) == ["a"]
    rota.looked("a", inf)
    assert rota.first() == "a"
    assert rota.due(30.0) == ["b"]


def test_those_in_line_have_their_turns_one_after_the_other() -> None:
    rota = Rota[str]()
    for name in "abc":
        rota.join(name)
    for name in rota.due(0.0):
        rota.looked(name, inf)
    turns = []
    for _ in range(7):
        first = rota.first()
        assert first is not None
        turns.append(first)
        if len(turns) == 4:
            rota.waits(first, 5.0, inf)
        else:
            rota.served(first)
        rota.touch(first)
        for name in rota.due(0.0):
            if len(turns) != 4:
                rota.looked(name, inf)
    assert "".join(turns) == "abcabcb"


def test_one_that_has_left_is_never_looked_at_again() -> None:
    rota = Rota[str]()
    rota.join("a")
    (first,) = rota.due(0.0)
    rota.looked(first, 5.0)
    rota.touch("a")
    rota.leave("a")
    rota.touch("a")
    rota.touch_all()
    assert (rota.due(inf), rota.first(), rota.next_time) == ([], None, inf)


times = st.one_of(st.just(inf), st.integers(0, 20).map(float))


@given(st.lists(st.one_of(st.tuples(st.sampled_from("abcd"), times), st.integers(0, 20).map(float))))
def test_times_are_those_that_were_put_last(steps: list[tuple[str, float] | float]) -> None:
    kept, model = Times[str](), dict[str, float]()
    for step in steps:
        if isinstance(step, tuple):
            kept.put(*step)
            model[step[0]] = step[1]
        else:
            come = {name for name, at in model.items() if at <= step}
            assert set(kept.come(step)) == come
            model = {name: at for name, at in model.items() if name not in come}
        assert kept.first == min(model.values(), default=inf)
