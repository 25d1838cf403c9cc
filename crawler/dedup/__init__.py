"""The seen-set as a tool of its own: which lines are new?

From low to high:

    keys        a line -> the key that decides whether it was seen: its bytes, or the key of the URL in it
    lines       blocks of whole lines, of a pipe as they come or of a part of a file
    interrupt   SIGINT and SIGTERM as something that can be waited for
    store       a seen-set in a file, replaced whole or not at all, held by one process at a time
    make        a seen-set for a tool, and whether what was asked for is what a file holds
    stream      lines in, new lines out, in order
    build       a seen-set from a list, in several processes
    build_process   what one of those processes does
    exchange    filters of other libraries
"""
