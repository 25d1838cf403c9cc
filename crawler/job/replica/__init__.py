"""Replicas: what a job wrote, told to a second directory that can take its place.

seal           the frame of a message
step_codec     the steps of a job as bytes on a carrier, and which of them follow which
pieces         a copy of a job, with which a replica begins, piece by piece
replica_codec  all kinds of messages
"""
