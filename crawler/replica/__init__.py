"""Replicas: what a job wrote, told to a second directory that can take its place.

step_codec   the steps of a job as bytes on a carrier, and which of them follow which
"""

from crawler.replica.step_codec import START, Chunk, ChunkError, Mark, Step, StepCodec, Written

__all__ = ["START", "Chunk", "ChunkError", "Mark", "Step", "StepCodec", "Written"]
