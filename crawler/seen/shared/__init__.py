"""One seen-set of many producers, on Redis or Valkey.

A set is divided into *shards* by the digests of its keys. Each shard is a chain of blocked filters by itself, in a few
strings of one hash slot, and one short script tests and sets the keys of a batch there. From low to high:

    pieces         which shard a digest belongs to, and which blocks of a slice a shard holds
    shard_requests what a shard is asked, and what it answers
    shard          one shard in memory: what the scripts do, in Python
    shard_scripts  the scripts
    shared_set     a producer of a set: numbers its requests, opens slices, tells what is new
    set_figures    how full and how wrong a set is
    set_address    redis://HOST:PORT/NAME, and the secret
    redis_shards   the shards on Redis
    redis_bloom    a set that the module RedisBloom or valkey-bloom keeps
    open_set       a set by its address
    transfer       from a local filter to a set, and back

``redis_shards``, ``redis_bloom`` and ``open_set`` use the network, by the connections of ``crawler.base.carrier``;
``set_address`` reads the file of the secret. The others touch neither socket, file nor clock.
"""
