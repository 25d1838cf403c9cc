"""The modules for which the demo has pages.

It is an allow-list, because rendering a page imports the module: ``antigravity`` opens a browser, ``this`` prints,
``idlelib``, ``tkinter`` and ``turtle`` need a display, ``test`` is larger than all others together. All names exist in
every Python from 3.11 on, some only on POSIX. A module that cannot be imported here has no page.
"""

from __future__ import annotations

_NAMES = """
    abc argparse array ast asyncio asyncio.base_events asyncio.constants asyncio.coroutines asyncio.events
    asyncio.exceptions asyncio.format_helpers asyncio.futures asyncio.locks asyncio.log asyncio.mixins
    asyncio.protocols asyncio.queues asyncio.runners asyncio.selector_events asyncio.sslproto
    asyncio.staggered asyncio.streams asyncio.subprocess asyncio.taskgroups asyncio.tasks asyncio.threads
    asyncio.timeouts asyncio.transports asyncio.trsock atexit base64 bdb binascii bisect builtins bz2
    cProfile calendar cmath cmd code codecs codeop collections collections.abc colorsys compileall
    concurrent concurrent.futures configparser contextlib contextvars copy copyreg csv ctypes ctypes.util
    curses curses.ascii curses.textpad dataclasses datetime dbm dbm.dumb decimal difflib dis doctest email
    email.base64mime email.charset email.contentmanager email.encoders email.errors email.feedparser
    email.generator email.header email.headerregistry email.iterators email.message email.mime
    email.parser email.policy email.quoprimime email.utils encodings encodings.aliases encodings.idna
    encodings.punycode encodings.utf_8 enum errno faulthandler fcntl filecmp fileinput fnmatch fractions
    ftplib functools gc getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html
    html.entities html.parser http http.client http.cookiejar http.cookies http.server imaplib importlib
    importlib.abc importlib.machinery importlib.metadata importlib.resources importlib.util inspect io
    ipaddress itertools json json.decoder json.encoder json.scanner json.tool keyword linecache locale
    logging logging.config logging.handlers lzma mailbox marshal math mimetypes mmap modulefinder
    multiprocessing multiprocessing.connection multiprocessing.context multiprocessing.managers
    multiprocessing.pool multiprocessing.process multiprocessing.queues multiprocessing.shared_memory
    multiprocessing.sharedctypes multiprocessing.synchronize netrc ntpath numbers opcode operator optparse
    os pathlib pdb pickle pickletools pkgutil platform plistlib poplib posixpath pprint profile pstats pty
    pwd py_compile pyclbr pydoc queue quopri random re readline reprlib resource rlcompleter runpy sched
    secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3
    sqlite3.dbapi2 ssl stat statistics string stringprep struct subprocess symtable sys sysconfig syslog
    tabnanny tarfile tempfile termios textwrap threading time timeit token tokenize tomllib trace
    traceback tracemalloc tty types typing unicodedata unittest unittest.async_case unittest.case
    unittest.loader unittest.main unittest.mock unittest.result unittest.runner unittest.signals
    unittest.suite unittest.util urllib urllib.error urllib.parse urllib.request urllib.response
    urllib.robotparser uuid warnings wave weakref webbrowser wsgiref wsgiref.handlers wsgiref.headers
    wsgiref.simple_server wsgiref.types wsgiref.util wsgiref.validate xml xml.dom xml.dom.minidom
    xml.etree xml.etree.ElementTree xml.parsers xml.parsers.expat xml.sax xml.sax.handler xmlrpc
    xmlrpc.client xmlrpc.server zipapp zipfile zipimport zlib zoneinfo
"""
MODULES: tuple[str, ...] = tuple(_NAMES.split())

# Names of Python 2 and where their contents went: the site answers them with a redirect.
MOVED: dict[str, str] = {
    "BaseHTTPServer": "http.server",
    "ConfigParser": "configparser",
    "Cookie": "http.cookies",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "StringIO": "io",
    "cPickle": "pickle",
    "htmlentitydefs": "html.entities",
    "httplib": "http.client",
    "thread": "threading",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
    "xmlrpclib": "xmlrpc.client",
}

# Modules that Python has dropped, and the version that did: the site answers them with 410.
REMOVED: dict[str, str] = {
    "asynchat": "3.12",
    "asyncore": "3.12",
    "cgi": "3.13",
    "crypt": "3.13",
    "distutils": "3.12",
    "imp": "3.12",
    "nntplib": "3.13",
    "pipes": "3.13",
    "telnetlib": "3.13",
    "uu": "3.13",
}
