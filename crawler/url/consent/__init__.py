"""The uses of their pages that sites allow or refuse, by purpose. Plain data, without I/O."""
