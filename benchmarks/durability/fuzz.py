"""Feed corrupt bytes to every reader: it may only raise its documented errors, quickly and with little memory.

    python benchmarks/durability/fuzz.py [--seconds 600] [--seed N] [--only READER ...]

Mutates real stored bytes: flips, cuts, repeats, insertions, numbers set to their extremes, pieces of other examples;
for formats with a checksum every second attempt gets the right one, or nothing behind it would ever be reached. A
reader that raises anything else, takes longer than two seconds or asks for more than 64 MiB is reported with the input
in hexadecimal, and the run ends with 1.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mmh3

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.base.disk import RealDisk
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import LinkSettings
from crawler.cli.exit_codes import UsageError
from crawler.cli.options import lay_flags_over
from crawler.frontier.entry import (
    Entry,
    EntryError,
    decode_entry,
    encode_entry,
    fresh_slot,
    pending_key,
    retry_slot,
    split_pending_key,
)
from crawler.frontier.host import BackQueue, Host, HostRecordError, Politeness, decode_host, encode_host, host_name
from crawler.frontier.traps.copies import CopyRecordError, check_content
from crawler.frontier.traps.counts import TrapRecordError
from crawler.frontier.traps.traps import check_row
from crawler.job.checkpoint.envelope import EnvelopeError, decode_envelope, encode_envelope
from crawler.job.checkpoint.generations import Generations, manifest_name
from crawler.job.metrics.catalogue import Counters
from crawler.job.output import AppendedFile, OutputError, record_of
from crawler.job.records import (
    Done,
    JournalError,
    Outcome,
    PageRecord,
    Position,
    decode_counters,
    decode_done,
    decode_seen,
    encode_counters,
    encode_done,
    encode_page,
)
from crawler.job.store.wal import recycled_record
from crawler.seen.filters import (
    FilterError,
    FormatError,
    ScalableBloomFilter,
    load_seen,
    read_seen,
    read_segment,
    write_seen,
)
from crawler.web.fetch import Response
from crawler.web.fetch.robots_answers import RobotsCache, RobotsRecordError, encode_robots
from crawler.web.links.sitemap import Sitemap
from tests.memory_store import MemoryStore

LONGEST = 2  # seconds for one input
MOST = 64 * 2**20  # bytes allocated for one input
ROOM = 2 * 2**30  # bytes of address space that the process may add
_MEASURED = 50  # every so many inputs the allocations are traced


@dataclass(frozen=True, slots=True)
class Reader:
    """``examples`` are whole inputs, ``errors`` what may be raised, ``mend`` puts the right checksum into an input."""

    name: str
    read: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    examples: tuple[bytes, ...]
    mend: Callable[[bytes], bytes] | None = None


class TooSlowError(BaseException):
    """A reader did not come back."""


def readers(home: Path) -> list[Reader]:
    """Every reader of stored bytes; those that want files get them in ``home``."""
    entry = Entry("http://h.test/a?b=c", 3, "http://h.test/", True, 1, 2, 3)
    done = Done(Outcome.FETCHED, 200, entry, (Position(0, 500, 120, 7),))
    page = encode_page(PageRecord(entry, Outcome.FETCHED, 1.7e9, 200, None, "text/html", 512, 3))
    host = encode_host(Host("h.test:80", BackQueue(9, 2), Politeness(next_time=1.7e9, crawl_delay=2.0)))
    robots = RobotsCache(MemoryStore(), "crawler/1")
    answer = Response(200, {}, None, None, b"User-agent: *\nDisallow: /x\nCrawl-delay: 3\n", None, None, 0.0, 0)
    seen = ScalableBloomFilter(0.01, 64)
    seen.add_many([f"key {number}" for number in range(300)])
    snapshot = seen.snapshot()
    file = io.BytesIO()
    write_seen(file, seen)
    manifest = _manifest(home, seen)
    toml = b'[crawl]\nconcurrency = 3\n[seen]\nfpp = 0.01\ncapacity = 10\n[fetch]\nuser_agent = "x/1"\n'
    rules = b"""[scope]\nexclude = [ '*]', # [no]\n  \"\"\"/a\n#\"\"\" ]\n[[priority]]\nclass = 1
pattern = "/\\u0061*"\n[[ priority ]]\n"class" = 2 # two\nmin_depth = 3\n[traps]\nmax_records = 1_0\n"""
    trap, closed = b"n" + bytes(16) + b"12345678", b"x" + bytes(16) + b"\0h.test:80"
    mark = b"h\0d" + bytes(16) + b"http://h.test/a"
    listing = b"<urlset><url><loc>http://h.test/?a&amp;b</loc><priority>0.5</priority></url><!-- x --></urlset>"
    payloads = {part.name: bytes(part.buffer.cast("B")) for part in snapshot.segments}
    log = b"".join(_log_record(kind, bytes(100)) for kind in (1, 2, 3, 4, 1))
    return [
        Reader("entry", decode_entry, (EntryError,), (encode_entry(entry), encode_entry(Entry("http://a/", 0)))),
        Reader(
            "pending key",
            split_pending_key,
            (EntryError,),
            (pending_key("h.test:80", fresh_slot(7)), pending_key("h.test:80", retry_slot(1.7e9, 8))),
        ),
        Reader("host", lambda data: decode_host("h.test:80", data), (HostRecordError,), (host,)),
        Reader("host name", host_name, (HostRecordError,), (b"h.test:80",)),
        Reader("robots", robots.decode, (RobotsRecordError,), (encode_robots(answer, 1.7e9),)),
        Reader("done event", decode_done, (JournalError,), (encode_done(done),)),
        Reader("seen event", decode_seen, (JournalError,), (bytes(32), b"-" + bytes(16))),
        Reader("counters", decode_counters, (JournalError,), (encode_counters(Counters(5, 6, 7)),)),
        Reader(
            "envelope",
            lambda data: decode_envelope(data, "frontier-job", 1, "job.json"),
            (EnvelopeError,),
            (encode_envelope("frontier-job", 1, {"shaping": {"seen": {"kind": "scalable", "fpp": 0.01}}}),),
            _mend_envelope,
        ),
        Reader("manifest", lambda data: _read_manifest(home, data), (EnvelopeError,), (manifest,), _mend_envelope),
        Reader(
            "generation",
            lambda data: _load(home, data),
            (EnvelopeError, FormatError, FilterError),
            (manifest,),
            _mend_envelope,
        ),
        Reader(
            "segment",
            lambda data: read_segment(io.BytesIO(data), limit=len(data)),
            (FormatError,),
            (file.getvalue()[:400], _segment(home)),
            _mend_segment,
        ),
        Reader(
            "seen-set in a file",
            lambda data: read_seen(io.BytesIO(data), limit=len(data)),
            (FormatError, FilterError),
            (file.getvalue(),),
        ),
        Reader(
            "seen-set's buffers",
            lambda data: load_seen(snapshot.state, _cut(payloads, data)),
            (FilterError,),
            (b"".join(payloads.values())[:2_000],),
        ),
        Reader(
            "seen-set's state",
            lambda data: _state(payloads, data),
            (FilterError,),
            (json.dumps(snapshot.state).encode(),),
        ),
        Reader("settings", lambda data: _settings(home, data), (UsageError, SettingsError), (toml, rules)),
        Reader("trap", lambda data: check_row(data[:17], data[17:]), (TrapRecordError,), (trap, closed)),
        Reader("page's mark", lambda data: check_content(data[:19], data[19:]), (CopyRecordError,), (mark,)),
        Reader("sitemap", lambda data: list(Sitemap(data, LinkSettings())), (), (listing, gzip.compress(listing))),
        Reader("record", record_of, (), (page, page + page)),
        Reader("output and its end", lambda data: _output(home, data), (OutputError,), (page * 3,)),
        Reader("log heads", lambda data: _recycled(home, data), (), (log, log * 300)),
    ]


def _manifest(home: Path, seen: ScalableBloomFilter) -> bytes:
    directory = home / "seen"
    directory.mkdir()
    Generations(directory, 2, RealDisk()).write(seen.snapshot(), 9, 1.7e9, lambda: None)
    return (directory / manifest_name(1)).read_bytes()


def _read_manifest(home: Path, data: bytes) -> object:
    (home / "seen" / manifest_name(1)).write_bytes(data)
    return Generations(home / "seen", 2, RealDisk()).read_manifest(1)


def _load(home: Path, data: bytes) -> object:
    (home / "seen" / manifest_name(1)).write_bytes(data)
    generations = Generations(home / "seen", 2, RealDisk())
    try:
        loaded = generations.read(1)
    except OSError:
        return None  # a segment file that is not there is damage like any other
    return load_seen(loaded.manifest.state, loaded.payloads)


def _segment(home: Path) -> bytes:
    return min((home / "seen").glob("slice-*"), key=lambda path: path.stat().st_size).read_bytes()


def _cut(payloads: dict[str, bytes], data: bytes) -> dict[str, memoryview]:
    """The buffers with the input in place of the first bytes of one of them, which may become shorter."""
    name = sorted(payloads)[len(data) % len(payloads)]
    changed = dict(payloads)
    changed[name] = data[: len(changed[name])] if len(data) % 3 else data + changed[name][len(data) :]
    return {key: memoryview(value) for key, value in changed.items()}


def _state(payloads: dict[str, bytes], data: bytes) -> object:
    try:
        state = json.loads(data)
    except (ValueError, RecursionError):
        return None  # the reader of the envelope says so
    return load_seen(state, {name: memoryview(value) for name, value in payloads.items()})


def _settings(home: Path, data: bytes) -> object:
    (home / "fuzz.toml").write_bytes(data)
    tables, source = lay_flags_over(home / "fuzz.toml", {})
    assert source.at("crawl") != source.at("no such table") or "crawl" not in tables
    return settings_from(tables, source)


def _output(home: Path, data: bytes) -> object:
    path = home / "pages.jsonl"
    path.write_bytes(data)
    output = AppendedFile(path, RealDisk())
    try:
        numbers = struct.unpack("<QII", data[:16].ljust(16, b"\0"))
        output.holds(Position(0, numbers[0] % 5_000, numbers[1] % 5_000, numbers[2]))
        output.cut(numbers[0] % 3_000)
        return output.end
    finally:
        output.close()


def _recycled(home: Path, data: bytes) -> object:
    (home / "000001.log").write_bytes(data)
    return recycled_record(home / "000001.log")


def _log_record(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IHB", 0, len(payload), kind) + payload


def _mend_envelope(data: bytes) -> bytes:
    body = data.partition(b"\n")[2]
    words = data.split(b"\n")[0].split(b" ")[:2]
    return b" ".join((*words, mmh3.hash_bytes(body).hex().encode())) + b"\n" + body


def _mend_segment(data: bytes) -> bytes:
    """Lengths and checksum that fit the bytes there are, whatever the header says."""
    if len(data) < 44:
        return data
    head = struct.unpack_from("<I", data, 12)[0] % (len(data) - 39)
    body = data[:12] + struct.pack("<IQ", head, len(data) - 40 - head) + data[24:-16]
    return body + mmh3.hash_bytes(body, x64arch=True)


# -- making inputs ---------------------------------------------------------------------------------------------


def mutated(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to six changes."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(9):
            case 0 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(made):
                made[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del made[at:]
            case 3:
                del made[at : at + chance.randrange(1, 20)]
            case 4:
                made[at:at] = chance.randbytes(chance.randrange(1, 20))
            case 5:
                size = chance.choice((1, 2, 4, 8))
                number = chance.choice((0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), len(made), len(made) + 1))
                made[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, chance.choice(("little", "big")))
            case 6:
                other = chance.choice(others)
                start = chance.randrange(len(other) + 1)
                made[at:at] = other[start : start + chance.randrange(1, 60)]
            case 7:
                made[at:at] = made[at : at + chance.randrange(1, 40)] * chance.choice((1, 2, 50))
            case _:
                made[at:at] = chance.choice(
                    (b"{", b"[" * 2_000, b'"', b"\\ud800", b"1e999", b"-", b"\n", b"9" * 5_000, b"NaN")
                )
    return bytes(made)


def fuzz(seconds: float, seed: int, home: Path, only: Sequence[str] = ()) -> dict[str, Counter[str]]:
    """What each reader answered how often. Raises AssertionError with the input for what no reader may do."""
    chance = random.Random(seed)
    chosen = [reader for reader in readers(home) if not only or reader.name in only]
    pool = [example for reader in chosen for example in reader.examples]
    answers: dict[str, Counter[str]] = {reader.name: Counter() for reader in chosen}
    for reader in chosen:  # whole inputs first: a reader that refuses these is not tried by what is made of them
        for example in reader.examples:
            answers[reader.name][attempt(reader, example, traced=True)] += 1
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        reader = chosen[number % len(chosen)]
        data = mutated(chance, chance.choice(reader.examples), pool)
        if reader.mend is not None and chance.random() < 0.5:
            data = reader.mend(data)
        answers[reader.name][attempt(reader, data, traced=number // len(chosen) % _MEASURED == 0)] += 1
        number += 1
    return answers


def _too_slow(*_: object) -> None:
    raise TooSlowError


def attempt(reader: Reader, data: bytes, *, traced: bool) -> str:
    """What the reader answers; ``traced``: also see how much it allocates. Raises AssertionError."""
    before = signal.signal(signal.SIGALRM, _too_slow)
    if traced:
        tracemalloc.start()
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        reader.read(data)
        answer = "read"
    except reader.errors as error:
        answer = type(error).__name__
    except TooSlowError:
        raise AssertionError(f"{reader.name}: no answer after {LONGEST} s for {data.hex()}") from None
    except Exception as error:
        raise AssertionError(f"{reader.name}: {error!r} for {data.hex()}") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if traced:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < MOST, f"{reader.name}: {most:,} bytes allocated for {data.hex()}"
    return answer


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="in all (600)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (1)")
    parser.add_argument("--only", nargs="+", default=[], metavar="READER", help="some of the readers")
    chosen = parser.parse_args(words)
    for line in describe_machine():
        print(line)
    # What asks for a hundred gigabytes is told at once, traced or not.
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as name:
        answers = fuzz(chosen.seconds, chosen.seed, Path(name), chosen.only)
    print(f"\nseed {chosen.seed}, {chosen.seconds:.0f} s: no answer but these, none later than {LONGEST} s")
    print(f"{'reader':<22}{'inputs':>10}{'read':>10}  refused")
    for reader, counts in answers.items():
        refused = ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()) if kind != "read")
        print(f"{reader:<22}{counts.total():>10,}{counts['read']:>10,}  {refused}")


if __name__ == "__main__":
    main(sys.argv[1:])
