"""Signs requests, so that servers can verify who the crawler is (RFC 9421, Web Bot Auth).

keys        Ed25519 keys, as JSON Web Keys, and the file of private keys
signatures  the headers of signatures
signer      decides which requests are signed
directory   the published directory of public keys, and its check
page.html   the published page about the crawler
"""
