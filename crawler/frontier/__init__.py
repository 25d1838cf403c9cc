"""The URLs known and unfinished, host by host, and the order to take them in."""

from crawler.frontier.entry import Entry, EntryError, QueueOf, decode_entry, encode_entry, queue_of
from crawler.frontier.frontier import Frontier
from crawler.frontier.host import (
    BackQueue,
    Failures,
    Host,
    HostRecordError,
    Politeness,
    Tally,
    decode_host,
    encode_host,
)
from crawler.frontier.host_closed import HostClosed, retired_words
from crawler.frontier.importance import SEED_SCORE
from crawler.frontier.lease import (
    AddressKnown,
    Completion,
    Done,
    Lease,
    Retry,
    RobotsKnown,
    RobotsLater,
    SideRequestDone,
    Throttled,
)
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.order import Order, default_class
from crawler.frontier.page import Answer, Page, PageError, pack_page, unpack_page, validator
from crawler.frontier.politeness import HoldReason
from crawler.frontier.request_outcome import ANSWERED, FailureClass, RequestOutcome, longest_retry, retry_wait, tries_of
from crawler.frontier.revisits import QUEUED_MAX, Revisits, due_key, split_due_key
from crawler.frontier.row import HostRow, HostState, describe, state_of, stored_state
from crawler.kv import Batch, Family, Reader, Store

__all__ = [
    "ANSWERED",
    "QUEUED_MAX",
    "SEED_SCORE",
    "AddressKnown",
    "Answer",
    "BackQueue",
    "Batch",
    "Completion",
    "Done",
    "Entry",
    "EntryError",
    "FailureClass",
    "Failures",
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
    "MemoryLimits",
    "Order",
    "Page",
    "PageError",
    "Politeness",
    "QueueOf",
    "Reader",
    "RequestOutcome",
    "Retry",
    "Revisits",
    "RobotsKnown",
    "RobotsLater",
    "SideRequestDone",
    "Store",
    "Tally",
    "Throttled",
    "decode_entry",
    "decode_host",
    "default_class",
    "describe",
    "due_key",
    "encode_entry",
    "encode_host",
    "longest_retry",
    "pack_page",
    "queue_of",
    "retired_words",
    "retry_wait",
    "split_due_key",
    "state_of",
    "stored_state",
    "tries_of",
    "unpack_page",
    "validator",
]
