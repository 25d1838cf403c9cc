"""The URLs known and unfinished, host by host, and the order to take them in.

A caller needs ``Frontier``: ``load``, ``admit``, ``take``, ``finish`` (with one of the ends in ``lease``), ``release``,
and ``written`` after each batch. The package does I/O only through the ``Reader`` of a store, and never reads a clock.
To follow a lease, read ``frontier``, ``workbench``, ``gate`` and ``queues``. From low to high:

    entry, order, page       a URL and its place in a queue; the order of a crawl; a page that is visited again
    request_outcome          what came of a request, and when a URL is tried again
    politeness               how long a host must wait, and for which reason: arithmetic
    host, limits             the state of one host and its stored record; what bounds all of them
    backoff_policy           how failures and answers change a host; ``host_closed``: when requests to it stop;
                             ``refused_hosts``: hosts that a rule of ours forbids to ask
    slot_share, host_session how slots are shared by time; how long a host keeps its turns
    timer_queue, schedule    tickets by time; the front queues, and whose turn it is
    queues, working_set      back queues on disk with a window in memory; which hosts are in memory
    importance, revisits     OPIC scores; when visited pages are due again
    fair_semaphore, gate     lines of hosts; gaps, holds, groups of hosts
    lease                    what is handed out, and how it ends
    workbench                finds a host wherever it is; each host is in one place only
    pace                     how long a host takes for what it has queued
    watchdog                 finds hosts that should be asked and are not
    ad_hoc_lease, overrides  requests without a queued URL; what the user does to single hosts
    outage                   whether the failures of many hosts are due to our own line
    frontier                 the contract
    host_keys, address_gap   which hosts share a gap and lease slots; the gap of an IP address
    domain_tallies           what was taken from each registrable domain
    host_status              a host as tables show it
    postponement             moves a URL behind all others of its host, before the frontier is loaded
"""

from crawler.base.kv import Batch, Family, Reader, Store
from crawler.frontier.entry import Entry, EntryError, QueueOf, decode_entry, encode_entry, first_visits, queue_of
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
from crawler.frontier.host_status import HostRow, HostSnapshot, HostState, describe, snapshot, state_of, stored_state
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
    TakenBack,
    Throttled,
)
from crawler.frontier.limits import Limits, MemoryLimits
from crawler.frontier.order import Order, Place, class_of, class_of_score, default_class
from crawler.frontier.pace import HostTime, HostTimes, Work, time_of
from crawler.frontier.page import Answer, Page, PageError, pack_page, unpack_page, validator
from crawler.frontier.politeness import HoldReason
from crawler.frontier.postponement import postpone
from crawler.frontier.request_outcome import ANSWERED, FailureClass, RequestOutcome, longest_retry, retry_wait, tries_of
from crawler.frontier.revisits import QUEUED_MAX, Revisits, due_key, split_due_key
from crawler.frontier.serving import AT_ONCE, Bar, Serving
from crawler.frontier.signals import Stated, Statements
from crawler.frontier.slot_share import ALL, kind_of
from crawler.frontier.waiting_line import Turn

__all__ = [
    "ALL",
    "ANSWERED",
    "AT_ONCE",
    "QUEUED_MAX",
    "SEED_SCORE",
    "AddressKnown",
    "Answer",
    "BackQueue",
    "Bar",
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
    "HostSnapshot",
    "HostState",
    "HostTime",
    "HostTimes",
    "Lease",
    "Limits",
    "MemoryLimits",
    "Order",
    "Page",
    "PageError",
    "Place",
    "Politeness",
    "QueueOf",
    "Reader",
    "RequestOutcome",
    "Retry",
    "Revisits",
    "RobotsKnown",
    "RobotsLater",
    "Serving",
    "SideRequestDone",
    "Stated",
    "Statements",
    "Store",
    "TakenBack",
    "Tally",
    "Throttled",
    "Turn",
    "Work",
    "class_of",
    "class_of_score",
    "decode_entry",
    "decode_host",
    "default_class",
    "describe",
    "due_key",
    "encode_entry",
    "encode_host",
    "first_visits",
    "kind_of",
    "longest_retry",
    "pack_page",
    "postpone",
    "queue_of",
    "retired_words",
    "retry_wait",
    "snapshot",
    "split_due_key",
    "state_of",
    "stored_state",
    "time_of",
    "tries_of",
    "unpack_page",
    "validator",
]
