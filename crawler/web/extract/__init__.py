"""What is taken out of pages for outputs.

edges        the link graph; pure
page_text    the main text of a page, its rows, and what goes to and from the processes that extract it
main_text    how it is extracted by default
text_child   what runs in those processes
text_pool    the processes, and what their failures mean
"""
