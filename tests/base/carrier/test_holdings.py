"""The carrier in memory against a model that keeps everything that was ever appended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.carrier.memory_carrier import Holdings
from crawler.base.carrier.verbs import START, CarrierError, Entry, StaleEpochError

NAMES = st.sampled_from(["p0", "p1", "p2"])
WRITERS = st.sampled_from(["p0", "p1", "p2", "p3"])
HOLDERS = st.sampled_from(["a", "b"])
EPOCHS = st.integers(0, 4)
ORDERS = st.tuples(st.integers(0, 2), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAMES, WRITERS, EPOCHS, st.lists(st.binary(max_size=3), max_size=3)),
        st.tuples(st.just("read"), NAMES, st.integers(0, 60), st.integers(1, 4)),
        st.tuples(st.just("trim"), NAMES, st.integers(0, 60)),
        st.tuples(st.just("claim"), NAMES, HOLDERS, EPOCHS, st.integers(1, 5)),
        st.tuples(st.just("renew"), NAMES, HOLDERS, EPOCHS, st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(1, 4)),
        st.tuples(st.just("put"), NAMES, st.sampled_from("xy"), st.binary(max_size=3), st.none() | ORDERS),
        st.tuples(st.just("forget"), NAMES),
        st.tuples(st.just("forget all")),
    ),
    max_size=60,
)


class Model:
    """Everything in plain lists; positions are those that ``Holdings`` gave."""

    def __init__(self) -> None:
        self.entries: dict[str, list[Entry]] = {}
        self.trimmed: dict[str, int] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.holders: dict[str, tuple[str, int]] = {}
        self.values: dict[tuple[str, str], bytes] = {}
        self.orders: dict[tuple[str, str], tuple[int, int]] = {}

    def passed(self, name: str, position: str) -> int:
        known = [entry.position for entry in self.entries.get(name, [])]
        return known.index(position) + 1 if position in known else 0

    def after(self, name: str, position: str) -> list[Entry]:
        return self.entries.get(name, [])[max(self.passed(name, position), self.trimmed.get(name, 0)) :]

    def last(self, name: str) -> str:
        return self.entries[name][-1].position if self.entries.get(name) else START

    def forget(self, name: str) -> None:
        for kept in (self.entries, self.trimmed, self.holders):
            kept.pop(name, None)
        self.epochs = {key: epoch for key, epoch in self.epochs.items() if key[0] != name}
        self.values = {key: value for key, value in self.values.items() if key[0] != name}
        self.orders = {key: order for key, order in self.orders.items() if key[0] != name}


class Both:
    """The carrier and the model, side by side."""

    def __init__(self) -> None:
        self.held = Holdings()
        self.model = Model()
        self.now = 0.0
        self.positions = [START]  # every one that was ever given

    def append(self, name: str, writer: str, epoch: int, data: list[bytes]) -> None:
        if self.model.epochs.get((name, writer), 0) > epoch:
            with pytest.raises(StaleEpochError):
                self.held.append(name, writer, epoch, data)
            return
        before = self.model.last(name)
        last = self.held.append(name, writer, epoch, data)
        self.model.epochs[name, writer] = epoch
        if not data:
            assert last == before
            return
        new = self.held.read({name: before}, len(data))[name]
        assert [entry.data for entry in new] == data
        assert new[-1].position == last
        assert not {entry.position for entry in new} & set(self.positions), "no position is given twice"
        self.positions += [entry.position for entry in new]
        self.model.entries.setdefault(name, []).extend(new)

    def read(self, name: str, position: int, most: int) -> None:
        after = self.positions[position % len(self.positions)]
        found = self.held.read({name: after, "elsewhere": after}, most)
        assert found == ({name: self.model.after(name, after)[:most]} if self.model.after(name, after) else {})

    def trim(self, name: str, position: int) -> None:
        upto = self.positions[position % len(self.positions)]
        self.held.trim(name, upto)
        self.model.trimmed[name] = max(self.model.trimmed.get(name, 0), self.model.passed(name, upto))

    def claim(self, name: str, holder: str, floor: int, seconds: int) -> None:
        held, until = self.model.holders.get(name, (holder, 0))
        if held != holder and self.now < until:
            assert self.held.claim(name, holder, floor, seconds, self.now) is None
            return
        epoch = max(floor, self.model.epochs.get((name, name), 0)) + 1
        assert self.held.claim(name, holder, floor, seconds, self.now) == epoch
        self.model.epochs[name, name] = epoch
        self.model.holders[name] = (holder, int(self.now) + seconds)

    def renew(self, name: str, holder: str, epoch: int, seconds: int) -> None:
        held, _ = self.model.holders.get(name, (None, 0))
        may = held == holder and self.model.epochs.get((name, name)) == epoch
        assert self.held.renew(name, holder, epoch, seconds, self.now) is may
        if may:
            self.model.holders[name] = (holder, int(self.now) + seconds)

    def put(self, name: str, key: str, value: bytes, order: tuple[int, int] | None) -> None:
        is_old = order is not None and order < self.model.orders.get((name, key), order)
        assert self.held.put(name, {key: value}, order) is not is_old
        if not is_old:
            self.model.values[name, key] = value
            if order is not None:
                self.model.orders[name, key] = order

    def agree(self) -> None:
        names = ["p0", "p1", "p2"]
        assert self.held.last(names) == [self.model.last(name) for name in names]
        for key in "xy":
            assert self.held.get(names, key) == [self.model.values.get((name, key)) for name in names]


@given(STEPS)
def test_it_holds_what_a_list_of_everything_holds(steps: list[tuple[object, ...]]) -> None:
    both = Both()
    for what, *given_ in steps:
        if what == "pass":
            both.now += given_[0]  # type: ignore[operator]
        elif what == "forget all":
            both.held.forget()
            for name in ("p0", "p1", "p2"):
                both.model.forget(name)
        elif what == "forget":
            both.held.forget(given_)  # type: ignore[arg-type]
            both.model.forget(str(given_[0]))
        else:
            getattr(both, str(what))(*given_)
        both.agree()


@given(st.integers(0, 6), st.integers(0, 8), st.integers(0, 6))
def test_the_end_of_a_stream_can_be_lost(entries: int, lost: int, trimmed: int) -> None:
    held = Holdings()
    data = [b"%d" % number for number in range(entries)]
    held.append("p1", "p2", 4, data)
    before = [entry.position for entry in held.read({"p1": START}, 10).get("p1", [])]
    if 0 < trimmed <= entries:
        held.trim("p1", before[trimmed - 1])
        data = data[trimmed:]
    held.forget_end("p1", lost)
    kept = data[: max(0, len(data) - lost)]
    for position in (START, *before):
        assert [entry.data for entry in held.read({"p1": position}, 10).get("p1", [])] == kept
    with pytest.raises(StaleEpochError):
        held.append("p1", "p2", 3, [b"x"])
    held.append("p1", "p2", 4, [b"new"])
    assert [entry.data for entry in held.read({"p1": START}, 10)["p1"]] == [*kept, b"new"]


def test_positions_that_nobody_gave_count_as_the_start() -> None:
    held = Holdings(incarnation="one")
    held.append("p1", "p2", 1, [b"a", b"b"])
    for position in (
        "x",
        "-",
        "one.1-",
        "one.1-x",
        "one.1-3",
        "one.1--1",
        "one.1-²",
        "one.1-" + "9" * 5_000,
        "two.1-1",
    ):
        assert len(held.read({"p1": position}, 10)["p1"]) == 2
        held.trim("p1", position)
    assert len(held.read({"p1": "one.1-1"}, 10)["p1"]) == 1


def test_two_carriers_have_different_positions() -> None:
    first, second = Holdings(), Holdings()
    position = first.append("p1", "p2", 1, [b"a"])
    second.append("p1", "p2", 1, [b"b"])
    assert [entry.data for entry in second.read({"p1": position}, 10)["p1"]] == [b"b"]


def test_a_full_carrier_takes_nothing_more_until_it_is_trimmed() -> None:
    held = Holdings(most_bytes=10_000)
    last = held.append("p1", "p2", 1, [b"x" * 4_000])
    with pytest.raises(CarrierError, match="full: it holds 4064 of 10000 bytes"):
        held.append("p2", "p2", 2, [b"y" * 3_000, b"z" * 3_000])
    assert held.last(["p2"]) == [START]
    held.append("p2", "p2", 1, [b"y" * 3_000])  # the epoch of the refused append is not known
    with pytest.raises(CarrierError):
        held.put("p1", {"a": b"x" * 5_000})
    assert held.get(["p1"], "a") == [None]
    held.trim("p1", last)
    held.put("p1", {"a": b"x" * 5_000})
    held.put("p1", {"a": b"x" * 5_500})
    assert held.claim("p9", "a", 0, 1, 0) == 1
    held.forget(["p1"])
    held.forget(["p2"])
    held.append("p1", "p2", 1, [b"x" * 9_900])
