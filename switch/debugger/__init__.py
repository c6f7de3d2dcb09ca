"""A debugger for P4 programs: the interpreter's steps, stopped where somebody wants to look."""
