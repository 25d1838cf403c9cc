"""Parsing that may cost more than it should, in a process of its own.

What Lexbor needs for a page is not bounded by its size: 16 KB can take half a gigabyte. So only a page whose bytes
prove that it is cheap (``links.is_cheap``) is parsed in the crawler's own process. Any other goes to a child with
limits on memory and CPU time. A child that dies is a value, and the next page gets a new one. Large pages have a child
of their own.

    wire           requests and answers as bytes
    child_process  a parent that forks, and the limits of what it forks
    parser_child   the parser that it forks
    process        the crawler's end: starts the parent, gets parsers from it, learns how they died
    fair_line      which page is next, when pages of many hosts wait
    pages          the pages of a run: which is parsed where, in which order, and what a death means
"""
