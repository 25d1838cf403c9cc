"""Traps: URLs made up without end, and pages that are copies of others."""

from crawler.traps.shape import odd_shape, variants_of
from crawler.traps.traps import TrapRecordError, Traps, check_row

__all__ = ["TrapRecordError", "Traps", "check_row", "odd_shape", "variants_of"]
