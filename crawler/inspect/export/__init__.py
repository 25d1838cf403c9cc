"""Exports the results of a job in other formats, such as Parquet files or a report. Reads a job, running or not, and
changes nothing in it.

    final_records  the records that no crash can undo
    columns        the tables and their columns, and which values fit
    beside         an output directory that appears complete or not at all
    parquet        the tables as Parquet files
"""
