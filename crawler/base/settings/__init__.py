"""Every setting of the program, and how tables become settings."""
