"""RoCEv2 on the wire: headers, packets and the invariant CRC.

What is compiled (``crc``, ``packets``) is imported from its own module, as numba comes with it.
"""
