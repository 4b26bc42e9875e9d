"""The command `fedsim`, which is `python -m fedsim` as well.

What a signal does is settled before anything is loaded, so that it leaves no traceback; see
`fedsim.running.interrupts`. Nothing but that and the command itself is imported here.
"""

import gc
import os
import sys

from fedsim.running import interrupts


def main() -> None:
    """Run a command and end with its exit code."""
    last = interrupts.LastWord()
    interrupts.end_at_once()
    gc.set_threshold(50_000, 50, 100)  # what is loaded stays: by default it is looked at for 0.3 s
    from fedsim.cli import app  # noqa: PLC0415 - it takes a second

    try:
        interrupts.raise_once()
        app()
    except (interrupts.Interrupted, RuntimeError) as error:
        interrupted = interrupts.behind(error)
        if interrupted is None:
            raise
        interrupts.ignore()
        sys.stderr.write(f"{interrupted}\n")
        last.code = 128 + interrupted.number
        sys.exit(last.code)
    except OSError as error:  # the error of a file names it: this is about printing
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it goes nowhere
        sys.stderr.write(f"cannot write standard output: {error.strerror}\n")
        sys.exit(1)
    finally:
        interrupts.ignore()


if __name__ == "__main__":
    main()
