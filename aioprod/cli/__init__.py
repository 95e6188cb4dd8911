"""The program `aioprod`: questions about partitions and groups, answered on the command line.

Each command is a module of its own with `main(arguments) -> exit status`; `__main__` has the table of them.
"""
