"""The bytes of elements."""


def item_bytes_of(dtype: str) -> int:
    """Return the bytes of an element, such as 4 for ``float32``."""
    if dtype.startswith("float8"):
        return 1
    return 1 if dtype == "bool" else int(dtype.lstrip("buintfloacmpex")) // 8
