"""Child processes that handle untrusted pages or run user code. All of them are started here.

A page's size does not bound the resources that it needs, and its parser may hang or crash. Pages are therefore read in
a child with limits on memory and CPU time. A child that dies is an expected outcome: it costs one page, and the next
page gets another child.

    frames     requests and answers as bytes
    child      the code in the processes: a parent that forks, and the children that it forks
    forker     the crawler's end: starts the parent, gets children from it, learns how they ended
    fair_line  the order of waiting requests of many hosts
    lane       requests in line for some children, and the consequences of a child's death

The program of these processes is a function named ``module:function``. It is called once, in the parent, with text
arguments, and returns the function that handles a request (``child.Read``).
"""

import os


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
