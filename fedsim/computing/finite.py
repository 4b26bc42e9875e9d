"""Whether what was computed is finite."""

from math import isfinite

import numpy as np


def finite(result: object) -> bool:
    """Say whether a vector that was computed is finite, quickly where its squares can be added up.

    Numbers are not looked at: a value of a trial step may be infinite, and says that the step was
    too long. Nor is what no kernel of fedsim returns.

    >>> finite(np.array([1.0, -1e300])), finite(np.array([1.0, np.nan])), finite(np.array(np.inf))
    (True, False, True)
    """
    if not isinstance(result, np.ndarray) or not result.ndim:
        return True
    return isfinite(np.vdot(result, result)) or bool(np.isfinite(result).all())
