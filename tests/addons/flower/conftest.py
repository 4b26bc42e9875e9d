"""The apps are packages of their own, as they would be outside of these tests."""

import sys
from pathlib import Path

APPS = Path(__file__).parent / "apps"
sys.path.insert(0, str(APPS))
