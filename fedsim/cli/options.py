"""What several commands take: arguments and options."""

from pathlib import Path
from typing import Annotated, Literal

import typer

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="a scenario in YAML, or the name of one of `fedsim examples`"
    ),
]
Places = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="what `fedsim run` has written, or a part")
]
Place = Annotated[
    Path, typer.Argument(metavar="DIR", help="what `fedsim run` has written, or a part")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="COLUMN=NUMBER", help="what to reach, such as gap=1e-5"),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="replace a value: algorithm.censor=0.2"),
]
Out = Annotated[
    Path | None,
    typer.Option(help="where the run folders go; runs/NAME where not given, after the scenario"),
]
Jobs = Annotated[int, typer.Option(min=1, help="how many runs go on at once, in processes")]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="where runs go on: a scheduler of Dask's, tcp://HOST:PORT, or local:4 for 4 workers",
    ),
]
Share = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="K/N", help="make the K-th of N shares of the runs, as an array job"
    ),
]
Gzip = Annotated[
    bool, typer.Option("--gzip", help="compress it, as trace.json.gz; a tenth of the size")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="make again what is there already")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="PLUGIN", help="a Python file with blocks of your own; it is run"
    ),
]
HowCarried = Annotated[
    Literal["values", "bytes"],
    typer.Option("--carry", help="how messages go; as bytes, all are encoded and decoded"),
]
