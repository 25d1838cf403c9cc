"""Whoever writes a page knows the program, but no secret: a URL made to have the digest of another hides nothing."""

from __future__ import annotations

from pathlib import Path

import mmh3
import pytest

from crawler.base.settings.parts import SEEN_HASHES, SEEN_KINDS, SeenSettings
from crawler.frontier.entry import Entry
from crawler.frontier.traps.copies import content_digest
from crawler.seen.exact.ledger import Ledger
from crawler.seen.exact.seen import make_seen
from crawler.seen.filters import KINDS, SEED_ZERO, KeyHash, SeenSet, load
from crawler.seen.filters import make_seen as make_filter
from crawler.url.urls.canonicaliser import Canonical, canonicalise
from tests.hostile.forge import forge
from tests.memory_store import MemoryStore
from tests.tools.dedup.commands import Commands

VICTIM = "https://victim.test/report.html"


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Commands:
    return Commands(capfdbinary)


@pytest.fixture(scope="module")
def forged() -> str:
    """The same for every test: it takes a second."""
    return forge(VICTIM)


def emptied(kind: str, hash: KeyHash) -> SeenSet:
    return make_seen(SeenSettings(kind=kind, capacity=1_000), MemoryStore(), hash)


def hidden(seen: SeenSet, forged: str) -> bool:
    """Whether the victim is taken for known once the forged key is in."""
    seen.add(forged)
    return VICTIM in seen


def test_a_forged_url_is_one_that_a_crawl_would_follow(forged: str) -> None:
    found = canonicalise(forged)
    assert isinstance(found, Canonical)
    assert found.key == forged != VICTIM
    assert SEED_ZERO.digest_keys([forged]) == SEED_ZERO.digest_keys([VICTIM])


@pytest.mark.parametrize("kind", KINDS)
def test_seed_0_lets_it_hide_another(kind: str, forged: str) -> None:
    """So it was in every seen-set; the tests below would notice."""
    seen = emptied(kind, SEED_ZERO)
    assert hidden(seen, forged)
    assert seen.statistics()["hash"] == {"algorithm": "mmh3", "keyed": False, "forgeable": True}


@pytest.mark.parametrize("kind", SEEN_KINDS)
def test_a_secret_does_not(kind: str, forged: str) -> None:
    seen = emptied(kind, KeyHash.new())
    assert not hidden(seen, forged)
    assert seen.statistics()["hash"] == {"algorithm": "blake2b", "keyed": True, "forgeable": False}


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_seed_does_not_either_but_is_not_trusted(kind: str, forged: str) -> None:
    seen = emptied(kind, KeyHash.new("mmh3"))
    assert not hidden(seen, forged)
    assert seen.statistics()["hash"]["forgeable"]


@pytest.mark.parametrize("kind", ["scalable"])
def test_a_seed_that_got_out_lets_it_hide_another(kind: str) -> None:
    hash = KeyHash.new("mmh3")
    assert hidden(emptied(kind, hash), forge(VICTIM, seed=int.from_bytes(hash.secret, "little")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", SEEN_HASHES)
def test_a_new_filter_has_a_secret_of_its_own_and_keeps_it(
    kind: str, algorithm: str, forged: str, tmp_path: Path
) -> None:
    seen = make_filter(SeenSettings(kind=kind, capacity=1_000, hash=algorithm))
    seen.add(forged)
    seen.save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600, "it holds the secret"
    again = load(tmp_path / "file")
    assert again.hash == seen.hash != make_filter(SeenSettings(kind=kind, capacity=1_000, hash=algorithm)).hash
    assert forged in again
    assert VICTIM not in again
    assert again.add(VICTIM)


@pytest.mark.parametrize("secret", [False, True])
def test_the_ledger_looks_up_digests_that_nobody_can_forge(secret: bool, forged: str) -> None:
    """What the filter calls seen is decided by digests on disk: those too must have a secret."""
    hash = KeyHash.new() if secret else SEED_ZERO
    store, seen = MemoryStore(), make_filter(SeenSettings(kind="scalable", capacity=1_000), hash)
    ledger = Ledger(store)
    found: list[str] = []
    for keys in ([forged], [VICTIM]):
        batch = store.batch()
        digests, new = seen.admit(keys, batch)
        ledger.note(keys, digests, new, lambda at, keys=keys: Entry(keys[at], at), batch)  # type: ignore[misc]
        store.write(batch)
        found += [keys[at] for at in new]
    batch = store.batch()
    found += [entry.href for _, entry in ledger.decide(10, batch)]
    assert (VICTIM in found) is secret


@pytest.mark.parametrize("kind", ["scalable"])
def test_dedup_prints_a_line_that_another_was_made_to_hide(
    kind: str,
    forged: str,
    run: Commands,
    tmp_path: Path,
) -> None:
    data = f"{forged}\n{VICTIM}\n".encode()
    assert run("dedup", "--seen", kind, "--capacity", "1000", data=data).out == data
    assert run("dedup", "--seen", kind, "--capacity", "1000", "--filter", tmp_path / "new", data=data).out == data
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600, "it holds the secret"
    old = make_filter(SeenSettings(kind=kind, capacity=1_000), SEED_ZERO)
    old.save(tmp_path / "old")
    hidden = run("dedup", "--filter", tmp_path / "old", data=data)
    assert hidden.out == data.splitlines(keepends=True)[0]
    assert "forge" in hidden.err, "the summary names it"
    assert b"forge" not in run("filter", "info", tmp_path / "new").out
    assert b"forge" in run("filter", "info", tmp_path / "old").out


def test_a_page_made_to_seem_the_original_of_another_is_none() -> None:
    """Contents are compared on one host, which may belong to many users. Their digest was MurmurHash3."""
    page = b"<title>Report</title><p>Figures"
    made = forge(page, prefix="<title>Mine</title>").encode()
    assert mmh3.hash_bytes(made) == mmh3.hash_bytes(page)
    assert content_digest(made) != content_digest(page)
