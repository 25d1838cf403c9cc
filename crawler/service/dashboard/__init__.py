"""The live page, and the same numbers for programs.

`listen` and `access` are pure (where to bind, who may look, who may change something). `guard` asks them before every
route, `token` keeps the token, `feed` says what is and what happened, `event_stream` carries it to the listeners,
`http_server` bounds connections, `server` has the routes, and the browser loads ``page/``. Everything shown comes from
one mapping, the one that ``stats --json`` prints.
Import them one by one: a crawl without a dashboard loads no server.
"""
