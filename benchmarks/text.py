"""Quality and cost of extractors of the main text: the crawler's beside others, on the same pages in the same run.

    python benchmarks/text.py [--articles DIR] [--html DIR] [--pages 300] [--disagreements N DIR] [--rounds 3]

Pages with their true text: those of ``--articles`` (``truth.json`` maps NAME to ``text``, the page is
``html/NAME.html.gz``), and the layouts of tests/data/layouts. A text is scored by its shingles of four words in lower
case, as multisets. Means are over pages; intervals are 95% of 10,000 bootstrap samples of the pages.

Pages without: ``--html`` compares the extractors with each other on a sample of the HTML files in a directory, as many
from each folder in it. ``--disagreements`` writes the texts of the pages where the crawler's differs most from
trafilatura's, to be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from itertools import chain, combinations, zip_longest
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, TypeVar

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.kit.machine import describe_machine
from crawler.web.extract.page_text import Forms
from crawler.web.links.encoding import python_codec, sniff_encoding

LAYOUTS = Path(__file__).resolve().parents[1] / "tests/data/layouts"
PACKAGES = ("turbohtml", "trafilatura", "lxml", "resiliparse", "readability-lxml", "justext")
OURS, RIVAL = "crawler", "trafilatura"
URL = "https://example.com/"
SHINGLE = 4  # words
DIFFERENT = 0.8  # F1 of two texts below which they disagree
BAD = 0.5  # F1 of a page that failed
SAMPLES = 10_000
PAGE = 35_000  # bytes that costs are compared for
SEED = 1
# Chinese and Japanese have no spaces: each character is a word.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")

Extractor = Callable[[str], str]
Item = TypeVar("Item")
Shingles = Counter[tuple[str, ...]]


class Page(NamedTuple):
    name: str
    html: str
    truth: str = ""


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float


class Result(NamedTuple):
    """What an extractor made of pages: their texts in order, on how many it failed, and the seconds of CPU time."""

    texts: list[str]
    failed: int
    seconds: float


def ours(module: str = "main_text", forms: Forms = Forms.TEXT) -> Extractor:
    extract = import_module(f"crawler.web.extract.{module}").extract
    return lambda page: extract(page, URL, forms).text


def trafilatura(**options: bool) -> Extractor:
    extract = import_module("trafilatura").extract
    return lambda page: extract(page, include_comments=False, **options) or ""


def resiliparse(**options: bool) -> Extractor:
    extract = import_module("resiliparse.extract.html2text").extract_plain_text
    return lambda page: extract(page, main_content=True, **options)


def turbohtml(text: str) -> Extractor:
    parse = import_module("turbohtml").parse
    return lambda page: getattr(parse(page), text)()


def readability() -> Extractor:
    document, tree = import_module("readability").Document, import_module("lxml.html").fromstring
    return lambda page: "\n".join(tree(document(page).summary()).itertext())


def justext() -> Extractor:
    library = import_module("justext")
    words = library.get_stoplist("English")
    return lambda page: "\n".join(part.text for part in library.justext(page, words) if not part.is_boilerplate)


EXTRACTORS: dict[str, Callable[[], Extractor]] = {
    OURS: ours,
    "crawler, all forms": lambda: ours(forms=Forms.TEXT | Forms.MARKDOWN | Forms.STRUCTURED),
    "crawler, trafilatura": lambda: ours("by_trafilatura"),
    RIVAL: trafilatura,
    "trafilatura, fast": lambda: trafilatura(fast=True),
    "trafilatura, precision": lambda: trafilatura(favor_precision=True),
    "trafilatura, recall": lambda: trafilatura(favor_recall=True),
    "resiliparse": resiliparse,
    "resiliparse, strict": lambda: resiliparse(comments=False, post_meta=False),
    "turbohtml": lambda: turbohtml("main_text"),
    "readability-lxml": readability,
    "justext": justext,
    "all text": lambda: turbohtml("to_text"),
}
# Those whose texts are compared: the others are variants with nearly the same text.
COMPARED = (OURS, RIVAL, "trafilatura, fast", "resiliparse", "turbohtml", "readability-lxml", "justext", "all text")


def installed() -> dict[str, Extractor]:
    found = {}
    for name, make in EXTRACTORS.items():
        try:
            found[name] = make()
        except ImportError as error:
            print(f"left out  {name}: {error}")
    return found


def run(extractors: dict[str, Extractor], pages: Sequence[Page], rounds: int) -> dict[str, Result]:
    """Run each extractor over all pages, ``rounds`` times in turns. The cost is the median."""
    for extract in extractors.values():  # what it does only once
        attempt(extract, pages[0].html)
    seconds: dict[str, list[float]] = {name: [] for name in extractors}
    texts: dict[str, list[str | None]] = {}
    for _ in range(rounds):
        for name, extract in extractors.items():
            start = time.process_time()
            texts[name] = [attempt(extract, page.html) for page in pages]
            seconds[name].append(time.process_time() - start)
    return {
        name: Result([text or "" for text in texts[name]], texts[name].count(None), median(seconds[name]))
        for name in extractors
    }


def attempt(extract: Extractor, page: str) -> str | None:
    try:
        return extract(page)
    except Exception:  # noqa: BLE001 -- the libraries raise what they like; it is counted
        return None


def shingles(text: str) -> Shingles:
    words = WORD.findall(text.lower())
    return Counter(tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1)) if words)


def score(truth: Shingles, found: Shingles) -> Score:
    if not truth and not found:
        return Score(1, 1, 1)
    common = (truth & found).total()
    precision = common / found.total() if found else 0.0
    recall = common / truth.total() if truth else 0.0
    return Score(precision, recall, 2 * precision * recall / (precision + recall) if common else 0.0)


def interval(values: Sequence[float]) -> str:
    """The mean, and its interval."""
    chance = random.Random(SEED)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(SAMPLES))
    low, high = means[int(0.025 * SAMPLES)], means[int(0.975 * SAMPLES)]
    return f"{fmean(values):6.3f} [{low:6.3f}, {high:6.3f}]"


def cost(result: Result, pages: Sequence[Page]) -> str:
    size = sum(len(page.html.encode()) for page in pages)
    return f"{1000 * result.seconds / len(pages):8.2f} {1000 * result.seconds * PAGE / size:8.2f}"


def print_quality(results: dict[str, Result], pages: Sequence[Page]) -> None:
    truths = [shingles(page.truth) for page in pages]
    scores = {
        name: [score(truth, shingles(text)) for truth, text in zip(truths, result.texts, strict=True)]
        for name, result in results.items()
    }
    marks = ("precision", "recall", "F1", f"F1 less {RIVAL}'s")
    print(f"{'':24}{''.join(f'{mark:>25}' for mark in marks)}  ms/page  ms/35KB  F1<{BAD}  failed")
    for name, result in results.items():
        columns = [[one[at] for one in scores[name]] for at in range(3)]
        if RIVAL in scores:
            columns.append([one.f1 - other.f1 for one, other in zip(scores[name], scores[RIVAL], strict=True)])
        intervals = "".join(f"{interval(column):>25}" for column in columns)
        bad = sum(one.f1 < BAD for one in scores[name])
        print(f"{name:24}{intervals} {cost(result, pages)} {bad:7} {result.failed:7}")


def print_layouts(results: dict[str, Result], pages: Sequence[Page]) -> None:
    """F1 of each page by each extractor."""
    print(f"{'':24}{''.join(f'{page.name:>10}' for page in pages)}      mean")
    for name, result in results.items():
        found = [score(shingles(page.truth), shingles(text)).f1 for page, text in zip(pages, result.texts, strict=True)]
        print(f"{name:24}{''.join(f'{one:10.3f}' for one in [*found, fmean(found)])}")


def print_agreement(results: dict[str, Result], pages: Sequence[Page]) -> None:
    """The mean F1 of the texts of each two extractors; and of how many pages they disagree."""
    names = [name for name in COMPARED if name in results]
    pairs: dict[frozenset[str], list[float]] = {frozenset(pair): [] for pair in combinations(names, 2)}
    for texts in zip(*(results[name].texts for name in names), strict=True):
        cut = dict(zip(names, map(shingles, texts), strict=True))
        for one, other in combinations(names, 2):
            pairs[frozenset((one, other))].append(score(cut[one], cut[other]).f1)
    print("\nAbove the diagonal mean F1 of two texts of a page, below it pages with F1 < 0.8")
    print(f"{'':24}{''.join(f'{name:>18}' for name in names)}   ms/page  ms/35KB   empty  failed")
    for row, name in enumerate(names):
        cells = [cell(pairs.get(frozenset((name, other))), row > column) for column, other in enumerate(names)]
        empty = sum(not text.strip() for text in results[name].texts)
        print(f"{name:24}{''.join(cells)}  {cost(results[name], pages)} {empty:7} {results[name].failed:7}")


def cell(found: list[float] | None, share: bool) -> str:
    if found is None:
        return f"{'-':>18}"
    return f"{fmean(one < DIFFERENT for one in found):18.0%}" if share else f"{fmean(found):18.3f}"


def write_disagreements(results: dict[str, Result], pages: Sequence[Page], count: int, directory: Path) -> None:
    """Write the worst pages of each folder in turns, as two texts and the page."""
    found = []
    for page, one, other in zip(pages, results[OURS].texts, results[RIVAL].texts, strict=True):
        agreement = score(shingles(one), shingles(other)).f1
        if agreement < DIFFERENT:
            found.append((agreement, page, one, other))
    found.sort(key=lambda item: item[0])
    directory.mkdir(parents=True, exist_ok=True)
    for number, (agreement, page, one, other) in enumerate(in_turns(found, lambda item: folder(item[1].name))[:count]):
        name = f"{number + 1:02}"
        (directory / f"{name}.html").write_text(page.html, "utf-8", "replace")
        texts = f"===== {OURS}\n{one}\n===== {RIVAL}\n{other}\n"
        (directory / f"{name}.txt").write_text(f"{page.name}\nF1 {agreement:.3f}\n{texts}")
        print(f"{name}  {agreement:.3f}  {len(one):7,} {len(other):7,} characters  {page.name}")


def in_turns(items: Iterable[Item], group: Callable[[Item], str]) -> list[Item]:
    """One of each group, then the second of each, and so on."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    return [item for item in chain.from_iterable(zip_longest(*groups.values())) if item is not None]


def folder(name: str) -> str:
    return name.partition("/")[0]


def articles(directory: Path) -> list[Page]:
    truth = json.loads((directory / "truth.json").read_bytes())
    return [
        Page(name, gzip.decompress((directory / f"html/{name}.html.gz").read_bytes()).decode(), truth[name]["text"])
        for name in sorted(truth)
    ]


def layouts(directory: Path = LAYOUTS) -> list[Page]:
    return [
        Page(file.stem, file.read_text("utf-8"), file.with_suffix(".txt").read_text("utf-8"))
        for file in sorted(directory.glob("*.html"))
    ]


def sample(directory: Path, count: int) -> list[Page]:
    names = sorted(str(file.relative_to(directory)) for file in directory.rglob("*.htm*") if file.is_file())
    random.Random(SEED).shuffle(names)
    chosen = sorted(in_turns(names, folder)[:count])
    return [Page(name, decoded((directory / name).read_bytes())) for name in chosen]


def decoded(body: bytes) -> str:
    return body.decode(python_codec(sniff_encoding(body, None)), "replace").removeprefix("\ufeff")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=Path, metavar="DIR", help="pages with their true text")
    parser.add_argument("--html", type=Path, metavar="DIR", help="HTML files without")
    parser.add_argument("--pages", type=int, default=300, help="of --html")
    parser.add_argument("--disagreements", nargs=2, metavar=("N", "DIR"), help="write the pages to be read")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore")
    print("\n".join(describe_machine(PACKAGES)))
    extractors = installed()

    def head(what: str, pages: Sequence[Page]) -> None:
        size = sum(len(page.html.encode()) for page in pages) // len(pages)
        print(f"\n{len(pages):,} {what}, {size:,} bytes on average")

    if chosen.articles is not None:
        pages = articles(chosen.articles)
        head("articles", pages)
        print_quality(run(extractors, pages, chosen.rounds), pages)
    pages = layouts()
    head("layouts: F1", pages)
    print_layouts(run(extractors, pages, 1), pages)
    if chosen.html is not None:
        pages = sample(chosen.html, chosen.pages)
        head("HTML files", pages)
        results = run({name: extractors[name] for name in COMPARED if name in extractors}, pages, 1)
        print_agreement(results, pages)
        if chosen.disagreements is not None:
            write_disagreements(results, pages, int(chosen.disagreements[0]), Path(chosen.disagreements[1]))


if __name__ == "__main__":
    main()
