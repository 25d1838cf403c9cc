"""The pages in docs/ say what the code does: their examples are decoded, their lists compared with the code."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import KEPT, SHAPING, TABLES, TrapSettings
from crawler.cli import COMMANDS, command_parser
from crawler.cli.command_parser import CommandParser
from crawler.cli.demo import MAGIC as DEMO_MAGIC
from crawler.cli.demo import VERSION as DEMO_VERSION
from crawler.cli.exit_codes import Exit
from crawler.cli.options import OUTPUT_NAMES
from crawler.engine.lifecycle import State
from crawler.frontier.entry import Entry, decode_entry, fresh_slot, is_retry, retry_time, split_pending_key
from crawler.frontier.host import decode_host
from crawler.frontier.page import unpack_page
from crawler.frontier.politeness import HoldReason
from crawler.frontier.recrawl.change_rate import ChangeRate
from crawler.frontier.rendering.rendering_odds import Paying, check_known
from crawler.frontier.request_outcome import FailureClass
from crawler.frontier.revisits import due_key
from crawler.frontier.traps.copies import check_content, content_digest
from crawler.frontier.traps.soft404 import check_soft404
from crawler.frontier.traps.traps import Traps
from crawler.inspect.statistics import SlotFigures
from crawler.job import directory as identity
from crawler.job.checkpoint.envelope import decode_envelope
from crawler.job.checkpoint.generations import Generations
from crawler.job.history_file import HISTORY
from crawler.job.inbox import INBOX, Answer, Inbox, UrlBatch
from crawler.job.job_lock import LOCK
from crawler.job.left_out import LimitRow, decode_row
from crawler.job.metrics.catalogue import KEYS, STATISTICS, Counters
from crawler.job.output.outputs import FORMS
from crawler.job.partition import inlet, outbox
from crawler.job.partition.messages import Links, decode_message
from crawler.job.records import (
    Outcome,
    PageRecord,
    Position,
    decode_counters,
    decode_done,
    decode_seen,
    encode_admitted,
    encode_forgotten,
    encode_page,
    sequence_key,
)
from crawler.job.recovery import COUNTERS, OUTPUT_END
from crawler.job.run_settings import RUN
from crawler.job.steps.seal import Kind, Sealing
from crawler.job.steps.step_codec import Chunk, Step, decode_chunk
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.exact.rows import rows_of
from crawler.seen.filters import SEED_ZERO, SeenStatistics, SliceStatistics, read_segment
from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.bounds import Limit
from crawler.web.archive.exchange_records import Earlier
from crawler.web.archive.labels import sha1
from crawler.web.archive.payloads import decode_payload, encode_payload
from crawler.web.fetch.robots_answers import RobotsCache
from tests.documents import DOCS, page
from tests.jobs import stopped_job
from tests.layers import MODULES
from tests.memory_store import MemoryStore
from tests.test_repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def example(name: str, of: str) -> bytes:
    """The bytes of the example that a page marks with ``of``: a text, or a hex dump, whose offsets must be right."""
    found = re.findall(rf'^```(\w+) title="{of}"\n(.*?)^```$', page(name), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{name}: {len(found)} examples of {of}"
    kind, text = found[0]
    if kind != "hex":
        return text.encode("ascii")
    data = b""
    for line in text.splitlines():
        offset, _, digits = line.partition("  ")
        assert int(offset, 16) == len(data), f"{name}: {of}: {line}"
        data += bytes.fromhex(digits)
    return data


def first_column(text: str) -> list[str]:
    """What stands in backquotes in the first cell of every table row, or before the colon of a list item."""
    cells = re.findall(r"^\| (.*?)\||^- (`(?:.|\n  )*?):(?: |$)", text, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", "".join(cell))]


def section(text: str, title: str) -> str:
    return re.split(r"^## ", text.partition(f"## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


# -- the examples, decoded -------------------------------------------------------------------------------------


def test_the_example_of_an_envelope() -> None:
    data = example("format-job.md", "envelope")
    assert decode_envelope(data, DEMO_MAGIC, DEMO_VERSION, "demo.json") == {
        "ports": {"guide": 40001, "news": 40002},
        "began": 1.5,
    }


def test_the_examples_of_pending_urls() -> None:
    assert split_pending_key(example("format-store.md", "pending-key")) == ("h.test", fresh_slot(7, 2, 2))
    host, slot = split_pending_key(example("format-store.md", "retry-key"))
    assert host == "h.test"
    assert is_retry(slot)
    assert retry_time(slot) == 1_700_000_000.25
    assert int.from_bytes(slot[-8:], "big") == 8
    entry = decode_entry(example("format-store.md", "entry"))
    assert entry == Entry("http://h.test/a", 2, "http://h.test/", tries=1, priority=2)


def test_the_examples_of_a_page_that_is_visited_again() -> None:
    page = unpack_page(example("format-store.md", "page"))
    assert page.entry == Entry("http://h.test/a", 1, "http://h.test/", revisit=True)
    assert (page.visits, page.changes, page.interval, page.due) == (3, 1, 100.0, 1_700_000_100.5)
    assert page.conditions == {"If-None-Match": '"v1"'}
    assert (page.rate, page.gone) == (ChangeRate(1.5, 300.0), 1)
    assert due_key(1_700_000_100.5, page.entry.href) == example("format-store.md", "due")


def test_the_examples_of_what_limits_left_out() -> None:
    key, value = example("format-store.md", "left-out page")[:16], example("format-store.md", "left-out page")[16:]
    entry = Entry("http://h.test/a", 2, "http://h.test/", priority=1)
    assert decode_row(key, value) == LimitRow(entry, None, "", 1, 1, 3, {Limit.MAX_DEPTH: 244})
    key, value = example("format-store.md", "refused URL")[:32], example("format-store.md", "refused URL")[32:]
    entry = Entry("http://10.0.0.1/", 1, "http://h.test/")
    assert decode_row(key, value) == LimitRow(entry, Rule.PRIVATE_ADDRESS, "10.0.0.1")


def test_the_example_of_a_host() -> None:
    host = decode_host("h.test", example("format-store.md", "host"))
    queue, politeness, tally = host.queue, host.politeness, host.tally
    assert (queue.size, queue.retry_size, queue.cursor) == (3, 1, fresh_slot(7, 2, 2))
    assert (politeness.crawl_delay, politeness.next_time) == (2.0, 1_700_000_001.5)
    assert (politeness.hold_reason, politeness.latency) == (HoldReason.CRAWL_DELAY, 0.25)
    assert (tally.fetched, tally.failed, tally.opic_score) == (5, 1, 0.0)
    assert (tally.size_read, tally.seconds, tally.pages, tally.scripted) == (40_000, 2.5, 4, 1)
    assert tally.errors == {FailureClass.TIMEOUT: 2, FailureClass.SERVER_ERROR: 1}
    hosts = " ".join(section(page("format-store.md"), "hosts").split())
    assert all(f"{rule.value} {rule.name.lower()}" in hosts for rule in HoldReason)
    assert all(f"{failure.value} {failure.word}" in hosts for failure in FailureClass)


def test_the_example_of_a_trap() -> None:
    data = example("format-store.md", "trap")
    store = MemoryStore()
    batch = store.batch()
    batch.put(Family.TRAPS, data[:17], data[17:])
    store.write(batch)
    (said,) = Traps(TrapSettings(), store).explain("http://h.test/calendar/7")
    assert said.startswith("Counted as URLs like /calendar/#: 3 so far")


def test_the_example_of_what_rendering_pays() -> None:
    data = example("format-store.md", "rendering")
    check_known(data[:17], data[17:])
    store = MemoryStore()
    Paying([], b"").weigh("h.test", "http://h.test/item/7", (), "signs").put(batch := store.batch())
    store.write(batch)
    assert store.get(Family.TRAPS, data[:17]) is not None


def test_the_example_of_a_page_s_content() -> None:
    data = example("format-store.md", "content")
    check_content(data[:27], data[27:])
    assert data[11:27] == content_digest(b"\r\n ")
    assert data[27:] == b"http://h.test/a"


def test_the_example_of_a_soft_404() -> None:
    data = example("format-store.md", "soft404")
    check_soft404(data[:26], data[26:])


def test_the_example_of_robots_txt() -> None:
    data = example("format-store.md", "robots")
    assert b"User-agent: *\n" in data
    robots = RobotsCache(MemoryStore(), "crawler/0.1").decode(data)
    assert (robots.status, robots.asked_at, robots.failure) == (200, 1_700_000_000.0, None)


def test_the_examples_of_the_journal_and_the_output_fit_together() -> None:
    admitted = example("format-store.md", "admitted")
    assert admitted == sequence_key(0) + encode_admitted(SEED_ZERO.digest_keys(["http://h.test/"]))
    forgotten = example("format-store.md", "forgotten")
    assert forgotten == sequence_key(1) + encode_forgotten(SEED_ZERO.digest_keys(["http://h.test/"]))
    assert decode_seen(forgotten[8:]) == (True, admitted[8:])
    done = decode_done(example("format-store.md", "done"))
    line = json_lines()[0]
    assert done.positions == (Position(0, len(line), len(line), zlib.crc32(line)),)
    record = PageRecord(done.entry, done.outcome, 1_700_000_000.5, done.status, None, "text/html", 512, 3)
    assert encode_page(record) == line


def test_the_example_of_counters() -> None:
    counters = decode_counters(example("format-store.md", "counters"))
    assert counters == Counters(sequence=1, next_number=1, urls_admitted=1, seeds=1, hosts=1)


def test_the_examples_of_the_ledger() -> None:
    key = "http://h.test/a"
    assert rows_of([key], SEED_ZERO.digest_keys([key])) == [example("format-store.md", "ledger-key")]
    assert LedgerCounts.decode(example("format-store.md", "ledger-counts")) == LedgerCounts(1, 40, 2)


def test_the_example_of_an_archived_payload() -> None:
    digest, row = example("format-store.md", "payloads-key"), example("format-store.md", "payloads")
    assert digest == sha1(b"hello")
    assert decode_payload(digest, row) == Earlier("http://h.test/a", 1_700_000_000_500, digest)
    assert row == sequence_key(7) + encode_payload(1_700_000_000_500, "http://h.test/a")


def test_the_examples_of_what_partitions_store() -> None:
    key, value = example("format-store.md", "outbox-key"), example("format-store.md", "outbox")
    assert outbox.check_row(key, value, 0, 16) == (3, 2)
    assert decode_message(value) == Links(["http://b.test/1", "http://b.test/2"], 1, "http://a.test/")
    key, value = example("format-store.md", "inlet-key"), example("format-store.md", "inlet")
    assert inlet.decode_row(key, value) == (3, 2, 40)


def test_the_examples_of_commands(tmp_path: Path) -> None:
    inbox, name = Inbox(tmp_path, RealDisk()), f"{1:020d}-2-3"
    inbox.path.mkdir()
    (inbox.path / f"{name}.command").write_bytes(example("format-inbox.md", "command"))
    assert inbox.take_command(7) == (name, {"pid": 7, "do": "pause", "host": None})
    inbox.answer_command(name, {"error": None, "status": 200})
    assert (inbox.path / f"{name}.answer").read_bytes() == example("format-inbox.md", "command-answer")
    assert inbox.command_answer(name) == {"error": None, "status": 200}


def test_a_batch() -> None:
    batch = Batch()
    batch.put(Family.HOSTS, b"h", b"\1\2")
    batch.delete(Family.PENDING, b"p")
    batch.delete_range(Family.DONE, b"", bytes(8))
    data = example("format-steps.md", "batch")
    assert Batch.decode(data).changes == batch.changes
    assert batch.encode() == data


def test_the_example_of_steps() -> None:
    message = Sealing(b"the secret of a crawl").open(example("format-steps.md", "steps"))
    assert message.kind is Kind.STEPS
    assert decode_chunk(message.partition, message.content) == Chunk(3, 9, 7, 41, [Step(b"b", [], [])])


def test_the_examples_of_the_inbox(tmp_path: Path) -> None:
    inbox, name = Inbox(tmp_path, RealDisk()), f"{1:020d}-2-3"
    inbox.path.mkdir()
    (inbox.path / f"{name}.urls").write_bytes(example("format-inbox.md", "batch"))
    assert inbox.waiting() == [name]
    url_batch = inbox.read(name)
    assert url_batch == UrlBatch(name, ("http://h.test/",), seed=False, answer=True)
    inbox.close_batch(url_batch, Answer(admitted=1))
    assert (inbox.path / f"{name}.answer").read_bytes() == example("format-inbox.md", "answer")
    assert inbox.answer(name) == Answer(admitted=1)


def test_the_example_of_a_generation(tmp_path: Path) -> None:
    (tmp_path / "generation-000001").write_bytes(example("format-generation.md", "manifest"))
    (tmp_path / "slice-0000.g000001").write_bytes(example("format-generation.md", "segment"))
    loaded, faults = Generations(tmp_path, 2, RealDisk()).load_newest()
    assert faults == []
    assert loaded is not None
    assert (loaded.manifest.generation, loaded.manifest.sequence) == (1, 2)
    assert {name: bytes(data) for name, data in loaded.payloads.items()} == {"slice-0000": b"\x01\x02\x03\x04"}
    header, _ = read_segment(BytesIO(example("format-generation.md", "segment")), limit=4)
    assert header == {"segment": "slice-0000"}


def json_lines() -> list[bytes]:
    return example("records.md", "pages").splitlines(keepends=True)


def test_the_example_records_have_all_fields_and_no_other() -> None:
    documented = first_column(page("records.md"))
    outcomes = [outcome.value for outcome in Outcome]
    rows = [json.loads(line) for line in json_lines()]
    assert documented == [*dict.fromkeys(key for row in rows for key in row), *outcomes]
    always = set(json.loads(encode_page(PageRecord(Entry("http://h.test/", 0), Outcome.FAILED, 0.0))))
    for row in rows:
        assert row["outcome"] in outcomes
        assert always <= set(row)


# -- the lists, compared ---------------------------------------------------------------------------------------


def test_every_family_key_and_counter_of_the_store_is_documented() -> None:
    text = page("format-store.md")
    tables = first_column(text)
    assert {family.value for family in Family} <= set(tables)
    assert {COUNTERS.decode(), OUTPUT_END.decode()} <= set(tables)
    text = " ".join(text.split())
    in_order = ", ".join(f"`{name}`" for name in Counters.__struct_fields__)
    assert in_order in text, "the counters, in their order"
    assert ", ".join(f"{rule.value} {rule.name.lower()}" for rule in HoldReason) in text
    *others, last = (f"`{outcome}`" for outcome in Outcome)
    assert f"{', '.join(others)} or {last}" in text


def test_every_file_of_a_job_is_documented(tmp_path: Path) -> None:
    documented = set(first_column(page("format-job.md")))
    named = {identity.PAGES, identity.IDENTITY, LOCK, identity.LIVE, RUN, HISTORY, "crash.txt", "demo.json"}
    assert named | {f"{identity.STORE}/", f"{identity.SEEN}/", f"{INBOX}/"} <= documented
    with stopped_job(tmp_path, 5) as made:
        found = {path.name + "/" * path.is_dir() for path in made.job.iterdir()}
    assert found <= documented
    for table, key in SHAPING:
        assert f"`{table}.{key}`" in page("format-job.md")


def test_every_output_is_documented() -> None:
    assert set(OUTPUT_NAMES) <= set(first_column(page("outputs.md")))
    (row,) = re.findall(r"^- `--output NAME.*?(?=\n- )", page("command-line.md"), re.MULTILINE | re.DOTALL)
    assert re.findall(r"`([\w-]+)`", row) == [*OUTPUT_NAMES]
    (reason,) = re.findall(r"\[output\]\n((?:#.*\n)+)keep = ", (ROOT / "config" / "default.toml").read_text("utf-8"))
    assert not [name for name in KEPT if f'"{name}"' not in reason]
    numbers = ", ".join(f"{form.kind} `{form.name}`" for form in FORMS.values())
    assert f"0 `pages.jsonl`, {numbers};" in page("format-store.md")


def test_every_number_of_the_statistics_is_documented() -> None:
    text = page("stats.md")
    assert sorted(first_column(section(text, "Statistics"))) == sorted(KEYS)
    assert first_column(section(text, "Parts of the statistics")) == [
        *("seen", *SeenStatistics.__annotations__, "ledger", *SliceStatistics.__annotations__),
        *("slots", *SlotFigures.__struct_fields__),
        *("checkpoint", *(path[11:] for path in STATISTICS if path.startswith("checkpoint."))),
    ]
    for state in State:
        assert f"`{state}`" in text


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for words in re.findall(r"^  (-.*?)(?:  |$)", parser.format_help(), re.MULTILINE):
        yield from re.findall(r"--[a-z-]+", words)
    if isinstance(parser, CommandParser):
        for command in parser.commands.values():
            yield from options(command)


def test_every_command_flag_and_exit_code_is_documented() -> None:
    text = page("command-line.md")
    words = [cell.split()[0] for cell in first_column(text)]
    assert set(words) >= set(COMMANDS)
    assert set(options(command_parser(*COMMANDS))) - {"--help", "--version"} == {
        word for word in words if word.startswith("--")
    }
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", section(text, "Exit codes"), re.MULTILINE)]
    assert codes == sorted(code.value for code in Exit)


def test_flags_that_stand_beside_those_of_other_tools_exist() -> None:
    rows = "".join(path.read_text("utf-8") for path in (DOCS / "coming-from").glob("*.md"))
    named = re.findall(r"--[a-z][a-z-]+", "".join(re.findall(r"^\|.*\|(.*)\|$", rows, re.MULTILINE)))
    assert set(named) <= set(options(command_parser(*COMMANDS)))


def test_every_table_of_settings_has_its_row() -> None:
    rows = re.findall(r"^\| `\[+(\w+)\]+` \|", page("settings.md"), re.MULTILINE)
    assert rows == [*TABLES]


def test_every_layer_and_family_of_packages_stands_in_the_architecture() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*)\|", section(page("architecture.md"), "Layers"), re.MULTILINE)
    assert [package for package, _ in rows] == [*MODULES]
    for package, inside in rows:
        assert {name.split(".")[0] for name in MODULES[package].split() if "." in name} == set(
            re.findall(r"\w+", inside)
        )


def test_every_dependency_and_extra_has_its_reason() -> None:
    text = page("dependencies.md")
    for extra, packages in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items():
        table = section(text, f"Extra `{extra}`") if extra else text.partition("\n## ")[0]
        assert {re.split(r"[\[<>=!~; ]", name)[0] for name in packages} == set(first_column(table)) - {"speedups"}


PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def by_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=by_name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=by_name)
def test_prose_wraps_at_100_characters(path: Path) -> None:
    """Tables, code and the targets of links may be longer: they cannot be wrapped."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "    "))]
    long = [line for line in prose if len(re.sub(r"\]\([^)]*\)|(?<=\]:) \S+$", "]()", line)) > 100]
    assert long == []


@pytest.mark.timeout(300)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Broken links and anchors are warnings, as is a page that the navigation does not name."""
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]  # --quiet hides warnings
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "scalable Bloom filter" in (site / "index.html").read_text("utf-8")
    assert "ScalableBloomFilter" in (site / "reference" / "api" / "index.html").read_text("utf-8")
    for name in ("index.html", "reference/dashboard/index.html"):
        assert re.search(r'<img [^>]*src="[./]*dashboard.png"', (site / name).read_text("utf-8")), name
    assert (site / "dashboard.png").is_file()
    assert json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    listed = re.findall(r"^- \[.+?\]\((.+?)\): \S", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    pages = [path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted("index.html" if str(path) == "index" else f"{path}/" for path in pages)
