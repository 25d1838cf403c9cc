"""What a job has found, written for others: Parquet files, a report. Reads a job, running or not, and changes nothing
in it.

    final_records  the records that no crash can undo
    columns        the tables and their columns, and which values fit
    beside         a directory that appears whole or not at all
    parquet        the tables as Parquet files
"""
