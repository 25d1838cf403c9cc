"""The data written by the transactions of a job, encoded for storage elsewhere.

seal        the frame of a message
step_codec  the encoding of the steps of a job, and their order
"""
