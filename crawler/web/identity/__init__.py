"""Signs requests, so that servers can verify who the crawler is (RFC 9421, Web Bot Auth).

keys        Ed25519 keys, as JSON Web Keys, and the file of private keys
signer      signs requests, and decides which ones
directory   the published directory of public keys, its signatures, and its check
page.html   the published page about the crawler
"""
