"""The distribution: its name, its version, its extras, and the command that installs an extra."""

DISTRIBUTION = "fedsim-network"
"""The name under which fedsim is installed; on the index, `fedsim` is another project."""

VERSION = "0.2.0"
"""The version, written here alone: the build and `fedsim.__version__` take it from here.

It does not come from a tag of git: the manifest of a run states it, so an import has to know it
where there is no repository. The release refuses a tag that differs from it.
"""

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
        extra: the extra of fedsim that installs it.
    """
    return (
        f"{user} takes {library}, which is not installed here: {install(extra)} in the folder of"
        " fedsim's sources"
    )
