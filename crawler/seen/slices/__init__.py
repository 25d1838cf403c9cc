"""Slices: fixed-size filters over digests. A seen-set (``crawler.seen.filters``) consists of one or more of them.

A slice knows only its memory. It does not know its keys, their number or its intended capacity.

From low to high:

    errors          the errors of filters
    digests         keys, and their 128-bit digests
    key_hash        the hash that makes digests, and its secret
    bit_storage     memory for the bits
    sampling        selects the part of a slice that is read to estimate its fill
    fpp_model       the computed false-positive probability of a blocked filter
    digest_batch    digests prepared once for lookups in all slices
    cow_snapshot    a snapshot of a slice's memory, copied while the slice changes
    contract        the interface of a slice
    classic_slice, guava_slice, blocked_slice
                    Bloom filters
    counting_slice, cuckoo_slice
                    filters that can forget
    table_slice     a hash table of digests
    layouts         the layouts by name

This package opens no files, reads no clock and does not depend on asyncio. Before ``bit_storage`` allocates memory, it
checks how much the machine has free.
"""
