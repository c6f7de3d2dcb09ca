"""What happened to packets: records taken from a traced switch, as events and as text."""
