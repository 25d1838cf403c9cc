"""Which uses of their pages sites allow or refuse, by purpose. Plain data, without I/O."""
