"""The user's cache: downloads and reference optima."""

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "FEDSIM_CACHE"
"""The environment variable that names another folder for the cache."""


def cache_folder() -> Path:
    """Return the folder of the cache, which need not exist yet."""
    own = os.environ.get(CACHE_VARIABLE)
    return Path(own) if own else Path(platformdirs.user_cache_dir("fedsim"))
