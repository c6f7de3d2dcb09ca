"""What puts agents on a machine: UDP sockets, rank processes, their meeting with the runner."""
