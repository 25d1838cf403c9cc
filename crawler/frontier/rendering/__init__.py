"""Decides which pages to render in a browser, and estimates how many are missed."""
