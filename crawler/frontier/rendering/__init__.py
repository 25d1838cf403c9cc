"""Which pages a browser is to render, because rendering pays on their host, and how many that misses."""
