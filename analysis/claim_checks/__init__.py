"""Claims of papers, and whether they hold where time and energy count."""

import sys
from pathlib import Path

# Settings of claims are those of rows of papers, which the package beside those files reads.
sys.path.append(str(Path(__file__).resolve().parents[1] / "papers"))
