"""A browser without a network: it renders pages, and the crawler answers each of its requests.

rendered       the requests and results of rendering
asked          decides which requests of a page are refused immediately
http_cache     responses that several pages share
engines        finds the browser
pipe           the DevTools protocol
process        the browser's processes and profile
tab            one page
serialise.js   serialises the document of a page
guard.js       keeps a page from closing itself, and opens its shadow roots
scroll.js      scrolls to the end of a page
browser        renders pages, and starts the process
"""
