"""When this process has loaded fedsim."""

from time import time

LOADED = time()
"""s since 1970; `import fedsim` loads this module first."""
