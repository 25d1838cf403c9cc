"""Checks and repairs jobs: ``verify`` finds where the parts of a job disagree, ``repair`` makes them agree."""
