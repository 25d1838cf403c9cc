"""Replicas: what a job wrote, told to a second directory that can take its place.

seal           the frame of a message
step_codec     the steps of a job as bytes on a carrier, and which of them follow which
pieces         a copy of a job, with which a replica begins, piece by piece
replica_codec  all kinds of messages
"""

from crawler.job.replica.copy_pieces import PIECE, CopyBegin, CopyEnd, CopyError, FilePart, HandOver, Piece, is_path
from crawler.job.replica.replica_codec import Message, ReplicaCodec
from crawler.job.replica.seal import ChunkError
from crawler.job.replica.step_codec import START, Chunk, Mark, Step, Written

__all__ = [
    "PIECE",
    "START",
    "Chunk",
    "ChunkError",
    "CopyBegin",
    "CopyEnd",
    "CopyError",
    "FilePart",
    "HandOver",
    "Mark",
    "Message",
    "Piece",
    "ReplicaCodec",
    "Step",
    "Written",
    "is_path",
]
