"""Whether the browser renders what pays, on a generated web, without a browser.

    python benchmarks/browser/recall.py [--runs N] [--only WORDS]

Of the script pages of a web, 6 of 10 are on hosts that are scripts as a whole, 3 in some shapes of other hosts, and 1
is a single page among plain ones. Signs are wrong as chance has it: by page, and by shape, as all pages of a template
are alike. A table: the share of script pages, the recall (the worst of all runs, and the mean), the share of pages
rendered (the most, and the mean), and in how many runs the interval of 95% contains the true recall.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import NamedTuple

from ground import header
from msgspec.structs import replace

from crawler.base.kv import Batch
from crawler.frontier.rendering.recall import Recall, estimated
from crawler.frontier.rendering.rendering_odds import Paying

SIGNS = ("empty mount point",)


class Web(NamedTuple):
    """A generated web. ``scripts``: the share of script pages. Signs are missed by page and by shape, and seen on plain
    pages, likewise. ``plain_first``: of each shape with scripts, so many pages come first that need none."""

    scripts: float = 0.1
    missed: float = 0.02
    missed_shapes: float = 0.01
    false: float = 0.003
    false_shapes: float = 0.01
    plain_first: int = 0
    hosts: int = 100
    pages: int = 30_000


class Page(NamedTuple):
    """A page, whether it has signs, and whether it needs a browser."""

    host: str
    href: str
    signs: bool
    needs: bool


class Seen(NamedTuple):
    """What a run has shown."""

    scripts: float
    true: float
    rendered: float
    estimate: Recall


def pages_of(web: Web, random: random.Random) -> list[Page]:
    """The pages of a web, in the order of a crawl that goes over all hosts."""
    share, made = [0.6 * web.scripts, 0.3 * web.scripts], [0, 0, 0]  # on hosts and in shapes of scripts; all
    dated: list[tuple[float, Page]] = []
    for number in range(web.hosts):
        size = 1 + min(int(random.paretovariate(1.5) * web.pages / web.hosts / 3), web.pages // 50)
        made[2] += size
        # The next host is of a kind that there is too little of.
        is_app = random.random() < web.scripts + 0.3 and made[0] + size / 2 < share[0] * made[2]
        weights = [2.0**-shape for shape in range(random.randint(2, 8))]
        of_scripts = [is_app] * len(weights)
        made[0] += size * is_app
        for shape in random.sample(range(len(weights)), len(weights) if not is_app else 0):
            part = round(size * weights[shape] / sum(weights))
            if random.random() < web.scripts + 0.1 and made[1] + part / 2 < share[1] * made[2]:
                of_scripts[shape] = True
                made[1] += part
        dated += _of_host(web, f"h{number}.test", size, of_scripts, weights, random)
    return [page for _, page in sorted(dated, key=lambda each: each[0])]


def _of_host(
    web: Web, host: str, size: int, of_scripts: list[bool], weights: list[float], random: random.Random
) -> Iterator[tuple[float, Page]]:
    wrong = [random.random() < (web.missed_shapes if needs else web.false_shapes) for needs in of_scripts]
    met = [0] * len(weights)
    began = 0.75 * random.random()  # hosts are found as the crawl goes on
    for item in range(size):
        (shape,) = random.choices(range(len(weights)), weights)
        met[shape] += 1
        single = not of_scripts[shape] and random.random() < 0.1 * web.scripts
        needs = single or (of_scripts[shape] and met[shape] > web.plain_first)
        signs = needs != (random.random() < (web.missed if needs else web.false))
        if wrong[shape] and not single:
            signs = not of_scripts[shape]
        yield began + (1 - began) * item / size, Page(host, f"http://{host}/{'abcdefgh'[shape]}/{item}", signs, needs)


def crawl(web: Web, seed: int) -> Seen:
    """Crawl the web, and return what was rendered."""
    counts: list[int] = []
    paying = Paying(counts, seed.to_bytes(8))
    needed = found = rendered = 0
    pages = pages_of(web, random.Random(seed))
    for page in pages:
        paid = paying.weigh(page.host, page.href, SIGNS if page.signs else (), "signs")
        is_rendered = paid.why is not None
        replace(paid, gained=page.needs if is_rendered else None).put(Batch())
        needed += page.needs
        found += page.needs and is_rendered
        rendered += is_rendered
    estimate = estimated(counts) or Recall(1.0, 0.0, 1.0, len(pages), 0, 0, 0, 0.0)
    return Seen(needed / len(pages), found / needed if needed else 1.0, rendered / len(pages), estimate)


MIXES = {
    "10% scripts": Web(),
    "10%, a crawl of 8,000 pages": Web(pages=8_000, hosts=27),
    "10%, a crawl of 100,000 pages": Web(pages=100_000, hosts=333),
    "1% scripts": Web(scripts=0.01),
    "50% scripts": Web(scripts=0.5),
    "10%, no signs at all": Web(missed=1.0, missed_shapes=1.0, false=0.0, false_shapes=0.0),
    "10%, signs miss 3% of pages, 2% of shapes": Web(missed=0.03, missed_shapes=0.02),
    "10%, signs miss 1 page and 1 shape in 10": Web(missed=0.1, missed_shapes=0.1),
    "10%, signs on 5% of plain pages and shapes": Web(false=0.05, false_shapes=0.05),
    "10%, the first 20 pages of each shape plain": Web(plain_first=20),
    "10%, the same without signs": Web(plain_first=20, missed=1.0, missed_shapes=1.0),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="", help="the first words of a row")
    options = parser.parse_args()
    header(f"runs      {options.runs} of each web")
    head = f"{'web':44}{'recall':>16}{'rendered':>16}{'covered':>10}  {'an interval':>16}"
    print(f"{head}\n{'':44}{'worst':>8}{'mean':>8}{'most':>8}{'mean':>8}")
    for name, web in MIXES.items():
        if not name.startswith(options.only):
            continue
        runs = [crawl(web, seed) for seed in range(1, options.runs + 1)]
        recalls, shares = [run.true for run in runs], [run.rendered for run in runs]
        covered = sum(run.estimate.low <= run.true <= run.estimate.high for run in runs)
        figures = [min(recalls), sum(recalls) / len(runs), max(shares), sum(shares) / len(runs)]
        low, high = runs[0].estimate.low, runs[0].estimate.high
        said = "".join(f"{each:>8.1%}" for each in figures)
        print(f"{name:44}{said}{covered:>5} of {len(runs)}  {low:>7.1%} to {high:.1%}", flush=True)


if __name__ == "__main__":
    main()
