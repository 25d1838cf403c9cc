"""Web archives: WARC 1.1 (ISO 28500:2017) records of what was fetched, and the index of them. Pure: no file, no clock.

labels        digests, dates and ids as the standard writes them
warc_record   one record: its named fields and its block
http_block    an HTTP message as a block
capture_records   the records of one exchange
gzip_member   a record as a gzip member of its own
payloads      which payloads are archived already: rows of a store
warc_reader   finds the records of a file again
surt          URLs in the order of the index
cdxj          lines of the index
"""
