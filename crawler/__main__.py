"""``python -m crawler``."""

from __future__ import annotations

import sys

from crawler.cli import main


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
