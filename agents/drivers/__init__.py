"""What puts agents on a machine: UDP sockets, the rank processes and their meeting with the runner."""
