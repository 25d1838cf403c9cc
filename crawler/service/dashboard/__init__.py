"""The live page, and the same statistics for programs.

`access` is pure: where to bind, who may read, who may make changes. `guard` applies them before every
route, `token` stores the token, `feed` prepares messages with statistics and events, `event_stream` sends them to the
listeners, `http_server` limits connections, `server` has the routes, and the browser loads ``page/``. All figures come
from one mapping, the one that ``stats --json`` prints. Import the modules individually, so that a crawl without a
dashboard loads no server.
"""
