"""Code of the user in a crawl, by its name.

named_code    ``module:function``, or the name of an entry point, into a function
"""
