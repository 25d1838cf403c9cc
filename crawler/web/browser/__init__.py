"""A browser without a network: it renders pages, and the crawler answers each of its requests.

rendered       what goes in and what comes out
asked          which requests of a page are refused at once
http_cache     answers that hold for other pages
engines        which browser there is
pipe           the DevTools protocol
process        its processes and its profile
tab            one page
serialise.js   takes the document of a page
browser        renders pages, and starts a process when there is none
"""
