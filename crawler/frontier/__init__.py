"""The URLs known and unfinished, host by host, and the order to take them in."""

from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.frontier import Frontier, Lease
from crawler.frontier.host import Host, HostRecordError, decode_host
from crawler.frontier.politeness import Rule, retry_wait
from crawler.frontier.storage import Batch, Family, Reader, Store

__all__ = [
    "Batch",
    "Entry",
    "EntryError",
    "Family",
    "Frontier",
    "Host",
    "HostRecordError",
    "Lease",
    "Reader",
    "Rule",
    "Store",
    "decode_entry",
    "decode_host",
    "encode_entry",
    "retry_wait",
]
