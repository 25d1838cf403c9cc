"""Whether the parts of a job agree: ``verify`` finds out, ``repair`` makes them agree."""
