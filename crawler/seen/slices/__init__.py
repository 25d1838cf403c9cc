"""Slices: filters of a fixed size over digests. A seen-set (``crawler.seen.filters``) is made of one or more of them.

A slice knows only its memory: not its keys, not how many it holds, and not how many it was made for.

From low to high:

    errors          the errors of filters
    entropy         where secrets come from
    digests         keys, and the 128 bits that represent them
    key_hash        the hash that makes digests, and its secret
    bit_storage     the memory of the bits
    sampling        which part of a slice is read to judge all of it
    fpp_model       how often a blocked filter is wrong, computed
    digest_batch    digests prepared once for lookups in all slices
    cow_snapshot    a slice's memory as it was at one moment, copied while the slice changes
    contract        what a chain asks of a slice
    classic_slice, guava_slice, blocked_slice
                    Bloom filters
    counting_slice, cuckoo_slice
                    filters that can forget
    table_slice     a hash table of digests
    layouts         the layouts by name

Nothing here opens a file, reads a clock or knows asyncio. Before ``bit_storage`` takes memory it asks the machine how
much is free.
"""
