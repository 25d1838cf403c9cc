"""The seen-set: which URLs were ever admitted.

slices    one fixed filter
filters   chains of slices, and every kind of seen-set
exact     the ledger on the disk that confirms what a filter answers
shared    a seen-set on Redis that many processes share
"""
