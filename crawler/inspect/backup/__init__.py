"""Backups of jobs: made even while a crawl runs, kept up to date, and restored."""
