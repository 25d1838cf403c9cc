"""The seen-set on disk, generation by generation."""

from crawler.job.checkpoint.envelope import (
    EnvelopeError,
    UnknownVersionError,
    decode_envelope,
    encode_envelope,
    envelope_version,
    read_bounded,
    read_envelope,
)
from crawler.job.checkpoint.generations import Draft, Generations, Loaded, Manifest
from crawler.job.checkpoint.renewal import Renewal, must_store

__all__ = [
    "Draft",
    "EnvelopeError",
    "Generations",
    "Loaded",
    "Manifest",
    "Renewal",
    "UnknownVersionError",
    "decode_envelope",
    "encode_envelope",
    "envelope_version",
    "must_store",
    "read_bounded",
    "read_envelope",
]
