"""How much of a web's importance is fetched early, by the order of the crawl.

    python benchmarks/frontier/order.py [--webs 5]

Synthetic webs of 60 hosts and 3,000 pages each (``web_graph.py``): half of all links stay on their host,
the others lead to hosts by a Zipf law. The figures are shares of the PageRank (damping 0.85) of all pages on the first
5 to 50% of those fetched, means over the webs; 8 requests in flight, 0.1 s each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.frontier.web_graph import WebGraph, crawled, early
from crawler.frontier.order import Order

PARTS = (0.05, 0.1, 0.2, 0.3, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--webs", type=int, default=5)
    webs = [WebGraph(60, 50, 8, seed) for seed in range(parser.parse_args().webs)]
    print(f"{'order':10}{'gap':>6}" + "".join(f"{part:>9.0%}" for part in PARTS) + "   of the pages")
    for gap in (0.0, 1.0):
        for order in Order:
            fetched = [crawled(web, order, delay=gap) for web in webs]
            shares = [
                statistics.mean(early(web, found, part) for web, found in zip(webs, fetched, strict=True))
                for part in PARTS
            ]
            print(f"{order.value:10}{gap:>4.0f} s" + "".join(f"{share:>9.3f}" for share in shares))


if __name__ == "__main__":
    main()
