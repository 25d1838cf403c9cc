"""The ordered store of a job: RocksDB on disk, or memory for tests and simulations."""
