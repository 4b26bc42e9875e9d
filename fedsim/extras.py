"""Extras: what an installation may lack, and the command that adds it."""

_INSTALL = "pip install '.[{extra}]'"
"""In the folder of fedsim's sources; in place of the dot a name would be one on the index."""


def install(extra: str) -> str:
    """Return the command that installs an extra.

    >>> install("torch")
    "pip install '.[torch]'"
    """
    return _INSTALL.format(extra=extra)


def missing(user: str, library: str, extra: str) -> str:
    """Return the sentence that a library is not installed, and how to install it.

    Args:
        user: what needs it.
        library: its name, for people.
        extra: of fedsim, which has it.
    """
    return (
        f"{user} takes {library}, which is not installed here: {install(extra)} in the folder of"
        " fedsim's sources"
    )
