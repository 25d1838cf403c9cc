"""Extraction of text and data from pages, for outputs.

A page passes through these modules, from the crawler to a process and back:

text_pool        the processes, and the handling of their failures
text_child       the program of these processes
main_text        the default extractor; by_trafilatura is the alternative
main_content     finds the element with the main content; pure
structured       JSON-LD, microdata and other machine-readable data; pure
language         detects the language of a text; pure
page_text        requests and responses of the processes, and the rows of the outputs

edges            the rows of the link graph; pure
"""
