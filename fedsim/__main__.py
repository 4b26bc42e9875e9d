"""`python -m fedsim` is the command `fedsim`."""

from fedsim.cli import main

main()
