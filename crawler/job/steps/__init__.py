"""What the transactions of a job wrote, as bytes for a store elsewhere.

seal        the frame of a message
step_codec  the steps of a job as bytes, and which of them follow which
"""
