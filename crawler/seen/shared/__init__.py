"""A seen-set on Redis or Valkey that several producers share.

A set is divided into *shards* by the digests of its keys. Each shard is an independent chain of blocked filters, stored
in a few strings of one hash slot, where one short script tests and sets the keys of a batch. From low to high:

    shard_geometry assigns digests to shards, and blocks of a slice to shards
    shard_requests the requests to a shard, and the shard's answers
    shard_scripts  the scripts
    shared_set     a producer of a set: numbers its requests, opens slices, finds the new keys
    set_figures    the fill and the false-positive rate of a set
    set_address    redis://HOST:PORT/NAME, and the secret
    redis_shards   the shards on Redis
    redis_bloom    a set in the module RedisBloom or valkey-bloom
    open_set       opens a set by its address
    transfer       copies a local filter to a set, and back

``redis_shards``, ``redis_bloom`` and ``open_set`` use the network, through the connections of ``crawler.base.carrier``;
``set_address`` reads the file with the secret. The others use no sockets, files or clock.
"""
