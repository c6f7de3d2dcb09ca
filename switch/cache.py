"""Where compiled programs and generated code are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder that holds the packages: a checkout's root, or site-packages."""


def cache_dir() -> Path:
    """The cache folder, created if need be.

    ``$WEFT_CACHE`` if set; the checkout's own ``.cache`` when running from a writable checkout; else
    ``~/.cache/weft``. Everything in it can be deleted at any time.
    """
    named = os.environ.get("WEFT_CACHE")
    if named:
        path = Path(named)
    elif (CHECKOUT / "pyproject.toml").is_file() and os.access(CHECKOUT, os.W_OK):
        path = CHECKOUT / ".cache"
    else:
        path = Path.home() / ".cache" / "weft"
    path.mkdir(parents=True, exist_ok=True)
    return path
