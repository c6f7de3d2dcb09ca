"""The transport's compiled code: what is done for each packet, on words of memory."""
