"""Data sets of Hugging Face and flwr-datasets that a Python program has at hand, as data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.errors import DataError
from fedsim.problems.data.files import GivenRows, number_rows
from fedsim.problems.data.hugging_face import HuggingFace

_KEY = "data"


def dataset(
    source: Any,
    *,
    label: str = "label",
    features: Sequence[str] = (),
    client: str | None = None,
    part: str = "train",
) -> GivenRows:
    """Return a data set of `datasets`, or of flwr-datasets, as a block for `problem.data`.

    A partitioner of flwr-datasets, or a `FederatedDataset`, also decides the clients: with
    `split: groups` each client has the rows of its partition, in their order. A scenario file only
    contains a digest of the rows, so such a scenario has to be run from Python.

        data = fedsim.dataset(FederatedDataset(dataset="mnist", partitioners={"train": 10}))
        fedsim.run({"problem": {"data": data, "split": "groups", ...}, ...})

    Args:
        source: a `datasets.Dataset`; a partitioner with its `dataset`; or a `FederatedDataset`.
        label: the column of labels: numbers or names.
        features: the columns of features, which contain numbers, equally long lists of numbers, or
            images; if empty, all but label and client.
        client: the column that names or numbers the client; for a `Dataset`.
        part: the part of a `FederatedDataset` that is partitioned.

    Raises:
        DataError: the argument is something else; a column is missing, or cannot become numbers.

    Example:
        Not run by the tests, since the package `datasets` is an extra:

        >>> from datasets import Dataset  # doctest: +SKIP
        >>> rows = Dataset.from_dict({"x": [[0.5], [2.0]], "label": [0, 1]})  # doctest: +SKIP
        >>> fedsim.dataset(rows).kind  # doctest: +SKIP
        'given'
    """
    tables = [part.with_format("arrow")[:] for part in _parts_of(source, part)]
    partitioned = hasattr(source, "load_partition")
    if partitioned and client is not None:
        text = f"client={client!r} is for a Dataset; here the partitions are the clients"
        raise DataError(_KEY, text)
    import pyarrow as pa  # takes 0.1 s, and few callers need it

    reader = HuggingFace(path=Path(), label=label, features=tuple(features), client=client)
    samples = reader.samples(pa.concat_tables(tables), Path("the data set"))
    number = samples.client
    if partitioned:
        number = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return number_rows(samples.X, samples.y, number)


def _parts_of(source: Any, part: str) -> list[Any]:
    """Return the partitions of a source, or the source itself.

    Raises:
        DataError: it is neither a data set nor partitioned.
    """
    if hasattr(source, "load_partition"):
        whole = hasattr(source, "partitioners")  # of a FederatedDataset
        if whole and part not in source.partitioners:
            names = ", ".join(map(str, source.partitioners))
            text = f"part={part!r} is not partitioned; its partitioned parts: {names}"
            raise DataError(_KEY, text)
        count = (source.partitioners[part] if whole else source).num_partitions
        extra = (part,) if whole else ()
        return [source.load_partition(number, *extra) for number in range(count)]
    if not hasattr(source, "with_format") or hasattr(source, "keys"):
        names = f" with the parts {', '.join(source)}" if hasattr(source, "keys") else ""
        text = f"got a {type(source).__name__}{names}; expected a datasets.Dataset, a partitioner"
        raise DataError(_KEY, f"{text} of flwr-datasets, or a FederatedDataset")
    return [source]
