"""Reads a job, running or not: statistics, explanations, hosts, records. Nothing here writes."""
