"""The folder of a paper: figures, tables, a methods paragraph and references of one study."""

from fedsim.paper.folder import write_paper

__all__ = ["write_paper"]
