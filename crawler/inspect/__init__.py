"""Reads a job, running or not: statistics, explanations, hosts, records; looking changes nothing.

integrity   verifies a job; its repair is the only code here that changes one
export      writes a job for other programs, elsewhere
backup      copies a job, and makes a job of the copy
"""
