"""Reads links and sitemaps of potentially expensive pages in separate processes. Lexbor's memory use is not bounded by
the size of a page: 16 KB can take half a gigabyte. So only a page whose bytes prove that it is cheap
(``links.is_cheap``) is parsed in the crawler's own process.

    wire          encodes requests to the processes and their results
    parser_child  the program of the processes
    pages         parses the pages of a run, and handles failures
"""
