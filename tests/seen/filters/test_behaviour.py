"""One behaviour suite for every kind of seen-set, the exact one among them: what the protocol promises."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.base.settings.parts import SEEN_KINDS
from crawler.seen.filters import DIGEST_BYTES, CannotForgetError, NotForgotten, SeenSet
from tests.examples import TIMES
from tests.seen.filters.kinds import FORGETTING, KINDS_AND_EXACT, Subject, told, urls

every_kind = pytest.mark.parametrize("name", KINDS_AND_EXACT)
batches = st.lists(st.lists(st.integers(0, 500).map(str), max_size=60), max_size=10)
text_or_bytes = st.one_of(st.integers(0, 300).map(str), st.integers(0, 300).map(lambda number: b"%d" % number))


def test_every_kind_is_in_the_suite() -> None:
    assert {Subject(name).seen.kind for name in KINDS_AND_EXACT} == set(SEEN_KINDS)


@every_kind
@settings(max_examples=8 * TIMES)
@given(added=batches)
def test_no_key_is_ever_denied(name: str, added: list[list[str]]) -> None:
    seen = Subject(name).seen
    known: set[str] = set()
    new = 0
    for batch in added:
        fresh = seen.add_many(batch)
        firsts = [at for at, key in enumerate(batch) if key not in known and key not in batch[:at]]
        assert fresh == sorted(set(fresh))
        assert set(fresh) <= set(firsts)
        if seen.certain:
            assert fresh == firsts
        known.update(batch)
        new += len(fresh)
        assert all(seen.contains_many(batch))
    assert all(seen.contains_many(sorted(known)))
    assert all(key in seen for key in list(known)[:5])
    assert len(seen) == new


@every_kind
@settings(max_examples=5 * TIMES)
@given(keys=st.lists(st.integers(0, 3000).map(str), max_size=200, unique=True))
def test_one_by_one_gives_the_same_answers_as_in_batches(name: str, keys: list[str]) -> None:
    whole, single = Subject(name), Subject(name)
    journal = whole.seen.digests(keys)
    digests = [journal[at : at + DIGEST_BYTES] for at in range(0, len(journal), DIGEST_BYTES)]
    whole.seen.restore(journal)
    for digest in digests:
        single.seen.restore(digest)
    probe = whole.seen.digests([str(number) for number in range(0, 6000, 7)])
    answers = whole.seen.might_contain_digests(probe)
    assert single.seen.might_contain_digests(probe) == answers
    one_by_one = [probe[at : at + DIGEST_BYTES] for at in range(0, len(probe), DIGEST_BYTES)]
    assert [single.seen.might_contain_digests(digest)[0] for digest in one_by_one] == answers
    assert told(single.seen) == told(whole.seen)


@every_kind
@settings(max_examples=5 * TIMES)
@given(keys=st.lists(text_or_bytes, max_size=60))
def test_text_and_its_utf_8_are_one_key(name: str, keys: list[str | bytes]) -> None:
    subject, other = Subject(name), Subject(name)
    swapped = [key.encode() if isinstance(key, str) else key.decode() for key in keys]
    assert subject.seen.digests(keys) == subject.seen.digests(swapped)
    assert subject.seen.add_many(keys) == other.seen.add_many(swapped)
    assert all(subject.seen.contains_many(swapped))
    assert all(key in subject.seen for key in swapped)
    assert not any(subject.seen.add(key) for key in swapped)


@every_kind
def test_a_lookup_tells_which_slices_claim_a_key_and_how_far_that_is_to_be_trusted(name: str) -> None:
    seen = Subject(name).seen
    seen.add_many(urls(0, 200))
    figures = seen.statistics()
    for key in [*urls(0, 40), *urls(10_000, 10_040)]:
        found = seen.lookup(key)
        assert found.known == (key in seen)
        assert found.fpp == figures["fpp_estimated"]
        assert found.certain == (seen.kind == "exact")
        assert bool(found.claims) == (found.known and not found.certain)
        for claim in found.claims:
            part = figures["slices"][claim.number - 1]
            assert (claim.count, claim.fpp_estimated) == (part["count"], part["fpp_estimated"])


@every_kind
@settings(max_examples=4 * TIMES)
@given(sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5), step=st.integers(1, 50))
def test_the_journal_rebuilds_it(name: str, sizes: list[int], step: int) -> None:
    subject = Subject(name)
    at = 0
    for size in sizes:
        subject.add(urls(at, at + size))
        at += size
    again = subject.replayed(step)
    assert told(again) == told(subject.seen)
    assert again.contains_many(urls(0, 1000)) == subject.seen.contains_many(urls(0, 1000))
    assert all(again.might_contain_digests(subject.journal))


@every_kind
@settings(max_examples=4 * TIMES)
@given(before=st.integers(0, 150), during=st.integers(0, 150), after=st.integers(0, 60))
def test_a_snapshot_written_while_keys_come_in_loses_nothing(name: str, before: int, during: int, after: int) -> None:
    subject = Subject(name)
    subject.add(urls(0, before))
    shot, since = subject.seen.snapshot(whole=False), len(subject.journal)
    subject.add(urls(before, before + during))
    while shot.advance():
        pass
    segments = {segment.name: memoryview(bytearray(segment.buffer)) for segment in shot.segments}
    subject.add(urls(before + during, before + during + after))
    resumed = subject.loaded(shot, segments)
    resumed.restore(subject.journal[since:])
    assert told(resumed) == told(subject.seen)
    assert all(resumed.contains_many(urls(0, before + during + after)))
    assert resumed.contains_many(urls(0, 2000)) == subject.seen.contains_many(urls(0, 2000))


def forget(subject: Subject, keys: list[str]) -> dict[int, NotForgotten]:
    """``forget_keys`` with a batch of its own; the journal is the subject's."""
    journal = [subject.journal[at : at + DIGEST_BYTES] for at in range(0, len(subject.journal), DIGEST_BYTES)]
    batch = subject.store.batch()
    left = subject.seen.forget_keys(keys, batch, lambda _: Counter(journal))
    subject.store.write(batch)
    return left


@every_kind
def test_it_forgets_or_says_why_it_cannot(name: str) -> None:
    subject = Subject(name)
    keys = [urls(0, 100)[at] for at in subject.add(urls(0, 100))]
    why = subject.seen.cannot_forget
    assert (why is None) == (name in FORGETTING or name == "exact")
    if why is not None:
        with pytest.raises(CannotForgetError):
            forget(subject, keys[:10])
        assert all(subject.seen.contains_many(keys))
        return
    left = forget(subject, [*keys[:50], "never admitted"])
    assert left.pop(50) in (NotForgotten.NOT_SEEN, NotForgotten.TAKEN_FOR_ANOTHER)
    assert set(left.values()) <= {NotForgotten.CLAIMED_TWICE}
    assert len(left) <= 5
    assert len(subject.seen) == len(keys) - 50 + len(left)
    assert all(subject.seen.contains_many(keys[50:]))
    again = subject.replayed(10)
    gone = subject.seen.digests([key for at, key in enumerate(keys[:50]) if at not in left])
    again.restore_forgotten(gone)
    assert len(again) == len(subject.seen)
    assert all(again.contains_many(keys[50:]))


@every_kind
def test_it_can_be_compacted_or_says_that_it_cannot(name: str) -> None:
    subject = Subject(name)
    subject.add(urls(0, 250))
    before = subject.seen.statistics()
    compactable = subject.seen.compactable
    assert (compactable is None) == (subject.seen.kind != "scalable")
    if compactable is None:
        return
    assert compactable.slices == len(before["slices"]) > 1
    successor = compactable.successor()
    while not successor.touch():
        pass
    successor.put(subject.journal)
    compactable.succeed(successor)
    after: SeenSet = subject.seen
    assert compactable.slices == after.statistics()["compactions"] == 1
    assert len(after) == before["count"]
    assert all(after.might_contain_digests(subject.journal))
