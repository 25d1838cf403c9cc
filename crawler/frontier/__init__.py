"""The URLs known and unfinished, host by host, and the order to take them in."""

from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.gate import Limits
from crawler.frontier.host import Host, HostRecordError, decode_host
from crawler.frontier.host_closed import HostClosed, retired_words
from crawler.frontier.importance import SEED_SCORE
from crawler.frontier.lease import Lease
from crawler.frontier.order import Order, default_class
from crawler.frontier.page import Answer, Page, PageError, pack_page, unpack_page, validator
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import FailureClass, RequestOutcome, longest_retry, retry_wait, tries_of
from crawler.frontier.revisits import QUEUED_MAX, Revisits, due_key, split_due_key
from crawler.frontier.row import HostRow, HostState, describe, state_of, stored_state
from crawler.kv import Batch, Family, Reader, Store

__all__ = [
    "QUEUED_MAX",
    "SEED_SCORE",
    "Answer",
    "Batch",
    "Entry",
    "EntryError",
    "FailureClass",
    "Family",
    "Frontier",
    "HoldReason",
    "Host",
    "HostClosed",
    "HostRecordError",
    "HostRow",
    "HostState",
    "Lease",
    "Limits",
    "Order",
    "Page",
    "PageError",
    "Reader",
    "RequestOutcome",
    "Revisits",
    "Store",
    "decode_entry",
    "decode_host",
    "default_class",
    "describe",
    "due_key",
    "encode_entry",
    "longest_retry",
    "pack_page",
    "retired_words",
    "retry_wait",
    "split_due_key",
    "state_of",
    "stored_state",
    "tries_of",
    "unpack_page",
    "validator",
]
