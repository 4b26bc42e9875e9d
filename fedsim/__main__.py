"""The command `fedsim`, also run as `python -m fedsim`.

Signal handlers are set before anything else is loaded, so that an interrupt shows no traceback; see
`fedsim.running.interrupts`. Only that, what sets up printing, and the command are imported here.
"""

import errno
import gc
import os
import sys
from pathlib import Path

from fedsim.core.printing import print_in_any_encoding
from fedsim.running import interrupts

_UNREAD = 1
"""The exit code of a command that succeeded, but whose output was not read to its end."""


def main() -> None:
    """Run a command and end with its exit code."""
    last = interrupts.LastWord()
    interrupts.end_at_once()
    _open_streams()
    print_in_any_encoding()
    gc.set_threshold(50_000, 50, 100)  # modules live to the end: scanning them would take 0.3 s
    try:
        from fedsim.cli import app, out  # it takes a second

        interrupts.raise_once()
        try:
            app()
        except SystemExit as end:
            if out.unread and not end.code:
                sys.exit(_UNREAD)
            raise
    except (interrupts.Interrupted, RuntimeError, ImportError, MemoryError, OSError) as error:
        interrupted = interrupts.behind(error)
        if interrupted is not None:
            interrupts.ignore()
            sys.stderr.write(f"{interrupted}\n")
            last.code = 128 + interrupted.number
        elif _lacks_memory(error):
            sys.stderr.write(f"out of memory: {str(error) or 'none is left'}\n")
            last.code = 1
        elif isinstance(error, OSError):  # the error of a file names it: this is about printing
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it goes nowhere
            sys.stderr.write(f"cannot write standard output: {error.strerror}\n")
            sys.exit(1)
        else:
            raise
        sys.exit(last.code)
    finally:
        interrupts.ignore()
        gc.freeze()  # the process ends: looking through all modules once more would take 0.4 s


def _open_streams() -> None:
    """Let a command without standard output or error (`>&-`, a daemon) print to nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - to the end


def _lacks_memory(error: BaseException) -> bool:
    """Return whether an error is the system's, or a library's, for want of memory."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    signs = ("failed to map segment", "cannot allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or any(each in str(error).lower() for each in signs)


if __name__ == "__main__":
    main()
