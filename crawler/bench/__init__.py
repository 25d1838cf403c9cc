"""Studies of hashes and membership filters, each reproduced with one command."""
