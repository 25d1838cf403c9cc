"""What is taken out of pages for outputs. Pure."""

from crawler.extract.edges import HEADER, REDIRECT, Edge, edge_rows

__all__ = ["HEADER", "REDIRECT", "Edge", "edge_rows"]
