"""Child processes that work on pages, which strangers wrote, or run code of the user. All of them are run here.

What a page needs is not bounded by its size, and what reads it may hang or crash. So it is read in a child with limits
on memory and CPU time; a child that dies is a value, it costs one page, and the next page gets another child.

    frames     requests and answers as bytes
    child      what runs in the processes: a parent that forks, and the children that it forks
    forker     the crawler's end: starts the parent, gets children from it, learns how they died
    fair_line  which request is next, when those of many hosts wait
    lane       requests in line for some children, and what the death of one means for them

A program for them is a function that is named ``module:function``. It is called once, in the parent, with arguments
that are text, and returns what reads a request (``child.Read``).
"""
