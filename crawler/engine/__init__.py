"""The engine: what runs. It hands out leases until nothing is left, and knows all parts that a visit needs.

Read ``run``, ``visit`` and ``discover`` in this order: they are the life of one URL.
"""
