"""All settings of the program, and how tables become settings."""
