"""Checks and repairs jobs: ``verify`` finds disagreements between the parts of a job, ``repair`` removes them."""
