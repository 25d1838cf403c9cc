"""The seen-set as a tool of its own: which lines are new?

From low to high:

    interrupt      SIGINT and SIGTERM as something to wait for
    key_spec       a line -> the key that decides whether it was seen: its bytes, or the key of the URL in it
    lines          blocks of whole lines, from a pipe as they arrive or from a part of a file
    lookout        warnings about a seen-set that is filling up
    store          a seen-set in a file, replaced whole or not at all, held by one process at a time
    exchange       filters of other libraries
    filter_setup   makes a seen-set for a tool, and checks that a file holds what was asked for
    stream         lines in, new lines out, in order
    build_process  the work of one process of a build
    build          a seen-set from a list, in several processes
"""
