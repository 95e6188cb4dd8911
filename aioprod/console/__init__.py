"""How commands are run, and what they show: the frame of a program, tables, pictures."""
