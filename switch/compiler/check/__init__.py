"""What a program may not do: types, calls, flow of control."""
