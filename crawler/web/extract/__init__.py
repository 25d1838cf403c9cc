"""What is taken out of pages for outputs.

A page goes through these, from the crawler to a process and back:

text_pool        the processes, and what their failures mean
text_child       what runs in them
main_text        the default extractor, and by_trafilatura the other
main_content     which element has the main content; pure
structured       JSON-LD, microdata and what else pages say for machines; pure
language         the language of a text; pure
page_text        what is asked and answered, and the rows of the outputs

edges            the rows of the link graph; pure
"""
