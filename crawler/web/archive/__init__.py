"""Web archives: WARC 1.1 (ISO 28500:2017) records of fetched pages, and their index. Pure: uses no files and no clock.

labels            digests, dates and ids in the notation of the standard
record_layout     one record: its named fields and its block
http_block        an HTTP message as a block
exchange_records  the records of one exchange
gzip_member       compresses a record to its own gzip member
payloads          rows of a store, for finding archived payloads
warc_reader       reads the records of a file
surt              URLs in the order of the index
cdxj              lines of the index
"""
