"""What a scenario needs and this machine lacks, offered before anything runs."""

import sys

import typer

from fedsim.building import missing_data
from fedsim.problems import ENTRIES, fetch
from fedsim.scenario import Plan


def offer_downloads(plan: Plan) -> None:
    """Offer to download what is missing, where somebody is there to answer."""
    for name in missing_data(plan):
        question = f"{name} is not on this machine. Download {ENTRIES[name].download}?"
        if sys.stdin.isatty() and typer.confirm(question, default=True):
            fetch(name)
