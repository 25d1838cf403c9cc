"""Object storage: where the state of a crawl can live, so that no machine has to keep it.

objects            the contract of a store, and what follows from it
directory_objects  a store in a shared directory
cloud_objects      a store of a cloud: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage
address            the store that a user names
"""
