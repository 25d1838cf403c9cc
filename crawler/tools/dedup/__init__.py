"""The seen-set as a standalone tool, which finds the new lines of an input.

From low to high:

    key_spec       computes the key that decides whether a line was seen: its bytes, or the key of its URL
    lines          blocks of whole lines, from a pipe as they arrive or from a part of a file; signals as a descriptor
    store          a seen-set in a file, replaced atomically, locked by one process at a time
    exchange       filters of other libraries
    filter_setup   creates a seen-set for a tool, and checks that a file matches the given flags
    stream         reads lines and writes the new ones, in order
    build          builds a seen-set from a list, in several processes
"""
