"""The basis of all other packages, independent of crawling.

settings      reading and checking of all settings
disk          files that are written atomically, and a disk that fails in tests
carrier       messages between processes: memory, a socket, Redis
kv, clock, memory, figures, native, native_switch, same_program, parent_death
              stored numbers, time, memory limits, numbers for people, the module in C, child processes
say, printable, named_stream
              lines for people
"""
