"""A browser without a network: it renders pages, and the crawler answers each of its requests.

rendered   what goes in and what comes out
"""
