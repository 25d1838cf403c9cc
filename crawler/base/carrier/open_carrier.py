"""Opens the carrier that a user names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from crawler.base.carrier.engine_address import check_crawl_name, parse_engine, read_login
from crawler.base.carrier.local_client import LocalCarrier
from crawler.base.carrier.verbs import Carrier, CarrierRefusedError


async def open_carrier(engine: str, crawl: str, environ: Mapping[str, str] = os.environ) -> Carrier:
    """Connect to the carrier of a crawl, and return the carrier once it has answered. ``environ`` contains the login.

    Raises CarrierError and CarrierRefusedError, each with one line of text.
    """
    address = parse_engine(engine)
    check_crawl_name(crawl)
    if isinstance(address, Path):
        local = LocalCarrier(address)
        await local.last([])
        return local
    login = read_login(environ)
    try:
        # Imported here because few crawls need it.
        from crawler.base.carrier.redis_carrier import RedisCarrier  # noqa: PLC0415
        from crawler.base.carrier.redis_servers import RedisServers  # noqa: PLC0415
    except ImportError as error:
        raise CarrierRefusedError(f"the engine {engine} needs redis: pip install 'redis[hiredis]'") from error
    carrier = RedisCarrier(RedisServers(address, login), crawl)
    try:
        await carrier.check()
    except BaseException:
        await carrier.close()
        raise
    return carrier
