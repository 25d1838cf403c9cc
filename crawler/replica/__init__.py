"""Replicas: what a job wrote, told to a second directory that can take its place.

    steps   the steps of a job as bytes on a carrier, and which of them follow which
"""

from crawler.replica.steps import START, Chunk, ChunkError, Mark, Step, StepCodec, Written

__all__ = ["START", "Chunk", "ChunkError", "Mark", "Step", "StepCodec", "Written"]
