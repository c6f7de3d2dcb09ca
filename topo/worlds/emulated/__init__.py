"""The world of real packets: Mininet's namespaces, veth pairs, and processes that are switches and
hosts."""
