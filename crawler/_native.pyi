"""The parts of the crawler that are written in C (``native/``). Not there where no compiler was when it was built."""
