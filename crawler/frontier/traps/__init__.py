"""Traps: endless generated URLs, hosts and ports, and pages that are copies of others."""

from crawler.frontier.traps.copies import Content, Copies, CopyRecordError, check_content, remember
from crawler.frontier.traps.counts import TrapRecordError
from crawler.frontier.traps.origins import Origins, refusal_of_limit
from crawler.frontier.traps.shape import odd_shape, variants_of
from crawler.frontier.traps.soft404 import (
    Judgement,
    Lesson,
    PageKind,
    Soft404,
    Soft404RecordError,
    check_soft404,
    explain_rows,
)
from crawler.frontier.traps.traps import Traps, check_row
from crawler.frontier.traps.walls import WALL_HEADERS, Wall, login_wall, wall_by_headers, wall_by_markup

__all__ = [
    "WALL_HEADERS",
    "Content",
    "Copies",
    "CopyRecordError",
    "Judgement",
    "Lesson",
    "Origins",
    "PageKind",
    "Soft404",
    "Soft404RecordError",
    "TrapRecordError",
    "Traps",
    "Wall",
    "check_content",
    "check_row",
    "check_soft404",
    "explain_rows",
    "login_wall",
    "odd_shape",
    "refusal_of_limit",
    "remember",
    "variants_of",
    "wall_by_headers",
    "wall_by_markup",
]
