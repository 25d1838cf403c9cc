"""Reads a job, running or not: statistics, explanations, hosts, records. Reading changes nothing.

integrity   verifies a job; its repair is the only code here that changes a job
export      writes a job's data elsewhere, for other programs
backup      copies a job, and restores a job from the copy
"""
