"""The seen-set on disk, generation by generation."""

from crawler.checkpoint.envelope import (
    EnvelopeError,
    UnknownVersionError,
    decode_envelope,
    encode_envelope,
    read_bounded,
    read_envelope,
)
from crawler.checkpoint.generations import Generations, Loaded, Manifest

__all__ = [
    "EnvelopeError",
    "Generations",
    "Loaded",
    "Manifest",
    "UnknownVersionError",
    "decode_envelope",
    "encode_envelope",
    "read_bounded",
    "read_envelope",
]
