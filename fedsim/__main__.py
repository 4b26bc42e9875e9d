"""The command `fedsim`, also run as `python -m fedsim`.

Signal handlers are set before anything else is loaded, so that an interrupt shows no traceback; see
`fedsim.running.interrupts`. Only that and the command itself are imported here.
"""

import gc
import os
import sys

from fedsim.running import interrupts


def main() -> None:
    """Run a command and end with its exit code."""
    last = interrupts.LastWord()
    interrupts.end_at_once()
    gc.set_threshold(50_000, 50, 100)  # modules live to the end: scanning them would take 0.3 s
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
    except OSError as error:  # errors of files are FedsimErrors by now: this is standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # buffered output is discarded
        sys.stderr.write(f"cannot write standard output: {error.strerror}\n")
        sys.exit(1)
    finally:
        interrupts.ignore()


if __name__ == "__main__":
    main()
