"""Who the crawler is, in a way that servers can verify: signed requests (RFC 9421, Web Bot Auth).

keys        Ed25519 keys, as JSON Web Keys
signatures  the text that is signed, and the headers that carry a signature
signer      which requests are signed
directory   the signed list of public keys that servers fetch, and what is wrong with one
key_file    reads and writes keys
page.html   the page about the crawler that `crawler identity new` makes
"""
