"""User code in a crawl.

named_code       loads ``module:function`` or an entry point
page_view        a page as functions see it
answers          the result of a function for a page
calls            a running call: in threads (``thread_calls``), in an event loop (``loop_calls``), or in processes
                 (``process_calls``, and ``page_child`` in them)
hook_failures    counts and logs the failures of a function
call_watch       waits for a call, logs it if it is slow, and gives up at its time limit
on_page          the function that is called with each page
asking           calls the other functions
focus            the functions that score and filter links and pages
requests         headers of requests, and whether a page has changed
loaded           loads all functions that the settings name
"""
