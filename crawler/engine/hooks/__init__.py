"""Code of the user in a crawl.

named_code       ``module:function``, or the name of an entry point, into a function
page_view        a page as functions see it
answers          what a function says of a page
calls            a call under way: in threads (``thread_calls``), in an event loop (``loop_calls``), or in processes
                 (``process_calls``, and ``page_child`` in them)
hook             counts the failures of a function, and shows them
call_watch       waits for a call, names it if it takes long, and gives it up
on_page          the function that is called with each page
asking           asks other functions
score_batches    links of many pages in one call
focus            the functions that score and filter links and pages
requests         headers of requests, and whether a page has changed
loaded           all functions that the settings name
"""
