"""Commands to start from: the scenarios that come with fedsim, and a folder of one's own."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.terminal import errors as _errors
from fedsim.cli.terminal import out as _out

_IGNORED = "/runs/\n"

_NOTES = """\
`{name}.yaml` asks: {question}

    fedsim check {name}.yaml            what would run, and what its first rounds cost
    fedsim run {name}.yaml              all variants; logs, tables and a figure in runs/{name}
    fedsim compare runs/{name}          what each has cost to reach the target
    fedsim report runs/{name}           one page that tells it all

Change a value in the file and run it again: what the edit does not touch is kept. `--set` changes
one for once: fedsim run {name}.yaml --set fleet.0.radio=nb-iot --out runs/nb-iot

    fedsim list                         what a scenario can name
    fedsim examples                     more scenarios
    fedsim schema > schema.json         with which an editor completes and checks the file
"""


@app.command("examples")
def examples_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="print this one, as a file to start from")
    ] = None,
) -> None:
    """List the scenarios that come with fedsim, each with its question; `fedsim run NAME` runs it.

    With the name of one, print it.
    """
    from fedsim.cli.shipped import examples_table
    from fedsim.scenario.examples import example

    with _errors():
        if name is None:
            _out.print(examples_table())
            _out.print("`fedsim run NAME` runs one, `fedsim examples NAME` prints it.")
        else:
            print(example(name).read_text(encoding="utf-8"), end="")  # noqa: T201 - to be piped


@app.command("init")
def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="where it goes; it is made if it is not there")
    ] = Path(),
) -> None:
    """Write the quickstart into a folder, to be changed, with what to do with it."""
    from fedsim.errors import DataError
    from fedsim.record.writing import write_whole
    from fedsim.scenario import load
    from fedsim.scenario.examples import FIRST, example

    with _errors():
        scenario = folder / f"{FIRST}.yaml"
        if scenario.exists():
            text = f"{scenario} is there already: nothing was written; give another folder"
            raise DataError("init", text)
        question = load(FIRST).variants[0].question
        files = {
            scenario.name: example(FIRST).read_text(encoding="utf-8"),
            "README.md": _NOTES.format(name=FIRST, question=question),
            ".gitignore": _IGNORED,
        }
        files = {name: text for name, text in files.items() if not (folder / name).exists()}
        for name, text in files.items():
            write_whole(folder / name, text.encode())
    _out.print(f"{', '.join(files)} in {escape(str(folder.absolute()))}")
    where = "" if folder.absolute() == Path.cwd() else f"cd {escape(str(folder))} && "
    _out.print(f"next: {where}fedsim run {FIRST}.yaml")
