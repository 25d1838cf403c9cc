"""The seen-set: every URL that was ever admitted.

slices    single filters of fixed size
filters   chains of slices, and all kinds of seen-sets
exact     the on-disk ledger that confirms the filter's answers
shared    a seen-set on Redis that several processes share
"""
