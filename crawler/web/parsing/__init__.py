"""Links and sitemaps of pages that may cost more than they should, read in processes of their own.

What Lexbor needs for a page is not bounded by its size: 16 KB can take half a gigabyte. So only a page whose bytes
prove that it is cheap (``links.is_cheap``) is parsed in the crawler's own process.

    wire          what is asked of the processes, and what they find, as bytes
    parser_child  what runs in them
    pages         the pages of a run: which is parsed where, and what a failure means
"""
