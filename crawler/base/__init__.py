"""What every other package stands on, and what knows nothing of crawling.

settings      every setting, read and checked
disk          files that are written whole, and a disk that fails in tests
carrier       messages between processes: memory, a socket, Redis
kv, clock, memory, figures, native, native_switch, same_program, parent_death
              stored numbers, time, bounds of memory, numbers for people, the module in C, child processes
say, printable, named_stream
              lines for people
"""
