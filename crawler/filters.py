"""The membership filters, under the name by which programs import them; they live in ``crawler.seen.filters``."""

from crawler.seen.filters import *  # noqa: F403
from crawler.seen.filters import __all__  # noqa: F401
