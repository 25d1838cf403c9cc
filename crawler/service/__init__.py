"""Serves people and programs: a run from start to end, its control, its HTTP interface."""
