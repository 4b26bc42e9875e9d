"""Splits made by the partitioners of flwr-datasets, which assign rows as in a Flower app."""

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.blocks.spec import Keys
from fedsim.core.blocks.wording import first_line
from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.problems.samples import Samples
from fedsim.problems.splits.base import Indices, Split

_OWN = {"num_partitions", "partition_by", "seed"}
"""Arguments of partitioners that are keys of the block."""


class Partitioned(Split):
    """The rows of each client are those of a partitioner of flwr-datasets.

    The partitioner gets a table of the training rows in the order of the data, with the columns
    `label` and, if the data numbers the client of each row, `client`. Rows that are held out as
    test rows are not in it.
    """

    source: ClassVar[str] = "flwr-datasets, which is part of Flower"
    sees_features: ClassVar[bool] = False

    kind: Literal["flwr-datasets"] = "flwr-datasets"
    clients: int | None = Field(
        default=None, ge=1, description="number of clients; by default as many as the fleet"
    )
    partitioner: Literal[
        "IidPartitioner",
        "DirichletPartitioner",
        "InnerDirichletPartitioner",
        "PathologicalPartitioner",
        "ShardPartitioner",
        "ContinuousPartitioner",
        "NaturalIdPartitioner",
        "GroupedNaturalIdPartitioner",
        "SizePartitioner",
        "LinearPartitioner",
        "SquarePartitioner",
        "ExponentialPartitioner",
    ] = Field(default="IidPartitioner", description="the class of `flwr_datasets.partitioner`")
    partition_by: Literal["label", "client"] = Field(
        default="label", description="the column that decides, if the partitioner takes one"
    )
    seed: int | None = Field(
        default=42,
        ge=0,
        description="seed of the partitioner, as in flwr-datasets the same for all runs; null: "
        "another one per seed of the study",
    )
    options: Keys = Field(
        default={}, description="further arguments of the partitioner, such as {alpha: 0.3}"
    )

    def assign(
        self, samples: Samples, clients: int | None, rng: np.random.Generator
    ) -> Sequence[Indices]:
        """Return the rows of each partition, in its order."""
        try:
            from datasets import Dataset
            from flwr_datasets import partitioner as partitioners
        except ModuleNotFoundError:
            text = missing("`kind: flwr-datasets`", "flwr-datasets", "flwr-datasets")
            raise DataError("split", text) from None
        if self.partition_by == "client" and samples.client is None:
            text = "client takes data that numbers the client of each row; this data does not"
            raise DataError("split.partition_by", text)
        if None not in (self.clients, clients) and self.clients != clients:
            raise DataError("split.clients", f"{self.clients} clients, but the fleet has {clients}")
        count = self.clients if clients is None else clients
        columns = {"row": np.arange(samples.rows), "label": _whole(samples.y)}
        if samples.client is not None:
            columns["client"] = samples.client
        model = getattr(partitioners, self.partitioner)
        try:
            partitioner = model(**self._arguments(model, count, rng))
            partitioner.dataset = Dataset.from_dict(columns)
            number = int(partitioner.num_partitions)
            parts = [partitioner.load_partition(m) for m in range(number)]
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            text = f"{self.partitioner} refuses this: {first_line(error)}"
            raise DataError("split", text) from error
        if count is not None and number != count:
            text = f"{self.partitioner} makes {number} partitions, but the fleet has {count}"
            raise DataError("split", text)
        rows = [np.asarray(part.with_format("numpy")["row"], dtype=np.intp) for part in parts]
        if empty := [m for m, part in enumerate(rows) if not len(part)]:
            text = f"{self.partitioner} leaves client {empty[0]} without rows"
            raise DataError("split", f"{text}; each client takes at least one")
        return rows

    def _arguments(
        self, model: type, count: int | None, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Return the arguments of the partitioner.

        Raises:
            DataError: one of the options is unknown, or the number of clients is missing.
        """
        known = set(inspect.signature(model).parameters)
        if wrong := sorted(self.options.keys() - (known - _OWN)):
            names = ", ".join(sorted(known - _OWN)) or "none"
            text = f"{self.partitioner} has no option {wrong[0]!r}; its options: {names}"
            raise DataError("split.options", text)
        if count is None and "num_partitions" in known:
            raise DataError("split.clients", "give the number of clients, or a fleet")
        seed = int(rng.integers(2**31)) if self.seed is None else self.seed
        own = {"num_partitions": count, "partition_by": self.partition_by, "seed": seed}
        return {**{name: own[name] for name in _OWN & known}, **self.options}


def _whole(y: Any) -> Any:
    """Return labels as integers, if all are whole: classes are compared with `==`."""
    return y.astype(np.int64) if np.array_equal(y, np.rint(y)) else y
