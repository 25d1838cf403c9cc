"""Backups of jobs: made while a crawl runs, kept up to date, and restored."""
