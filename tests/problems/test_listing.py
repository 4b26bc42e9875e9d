"""What a scenario can name: the explicit lists, and what each entry tells of itself."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from fedsim import problems
from fedsim.core.blocks.spec import Spec
from fedsim.problems import LOSSES, SOURCES, SPLITS, Csv, Idx
from fedsim.problems.losses import JaxLoss
from tests.tiers import every

EVERYTHING: list[type[Spec]] = [*LOSSES, *SOURCES, *SPLITS]
each = every("spec", EVERYTHING)


@pytest.mark.parametrize("listed", [LOSSES, SOURCES, SPLITS])
def test_kinds_tell_the_entries_of_a_list_apart(listed: tuple[type[Spec], ...]) -> None:
    kinds = [spec.model_fields["kind"].default for spec in listed]
    assert len(set(kinds)) == len(kinds)


@each
def test_an_entry_says_what_it_is_in_one_line_and_where_it_is_from(spec: type[Spec]) -> None:
    assert spec.__doc__ is not None
    first, *rest = spec.__doc__.splitlines()
    assert 20 < len(first) <= 90
    assert first.endswith(".")
    assert not rest or not rest[0].strip()
    assert len(getattr(spec, "source", "")) > 10


@each
def test_every_parameter_is_described(spec: type[Spec]) -> None:
    undescribed = [name for name, field in spec.model_fields.items() if not field.description]
    assert undescribed == ["kind"]


@each
def test_an_entry_has_a_json_schema(spec: type[Spec]) -> None:
    schema = spec.model_json_schema()
    assert schema["additionalProperties"] is False
    assert json.loads(json.dumps(schema)) == schema


@every(
    ("spec", "fields"),
    [
        (problems.Squared, {"scale": "rms"}),
        (problems.Squared, {"l1": -1}),
        (problems.Logistic, {"scale": "mean-square"}),
        (problems.Logistic, {"l2": float("inf")}),
        (problems.Logistic, {"labels": "zero-one"}),
        (problems.MultilayerPerceptron, {"hidden": 0}),
        (problems.MultilayerPerceptron, {"output": "linear"}),
        (problems.MultilayerPerceptron, {"l1": 0.1}),
        (problems.MultilayerPerceptron, {"spread": 0}),
        (problems.Contiguous, {"clients": 0}),
        (problems.IID, {"remainder": "keep"}),
        (problems.Groups, {"clients": 3}),
        (problems.LibSVM, {}),
        (problems.LibSVM, {"path": "a", "features": 0}),
        (problems.LibSVM, {"path": "a", "layout": "columns"}),
        (problems.Catalogue, {"name": "unheard-of"}),
        (Csv, {"path": "a"}),
        (Csv, {"path": "a", "label": 1, "separator": ", "}),
        (Idx, {"images": "a"}),
    ],
)
def test_parameters_out_of_bounds_are_refused(spec: type[Spec], fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        spec.model_validate(fields)


@each
def test_what_is_written_is_read_back(spec: type[Spec]) -> None:
    needed = {
        problems.LibSVM: {"path": "a/b.svm", "preprocess": ["standardise", {"first": 2}]},
        problems.NpzArchive: {"path": "a.npz"},
        problems.Bundled: {"name": "iris"},
        problems.Catalogue: {"name": "ijcnn1"},
        problems.PlantedSmoothness: {"growth": 1.3},
        problems.Tong: {"reading": ["deviations"], "preprocess": [{"divide": 2}]},
        problems.TorchLoss: {"model": {"kind": "mlp"}},
        JaxLoss: {"model": {"digest": "f", "name": "apply", "row": [2]}},
        Csv: {"path": "a.csv", "label": "y", "client": 3},
        Idx: {"images": "a", "labels": "b"},
        problems.data.GivenRows: {"digest": "f", "rows": 3, "row": [2]},
        problems.data.Table: {
            "path": "a.csv",
            "label": "y",
            "drop": ["id"],
            "columns": {"a": "date"},
        },
        problems.data.Database: {"address": "a.db", "query": "select * from t", "label": 1},
        problems.data.OpenML: {"name": "credit-g", "label": "class"},
        problems.data.Hub: {"name": "a/b", "label": "y"},
        problems.data.FrameTable: {"digest": "f", "rows": 3, "label": "y"},
        problems.ImageFolder: {"path": "a", "size": [28, 28]},
        problems.HuggingFace: {"path": "a", "features": ["x"]},
        problems.Leaf: {"path": "a"},
        problems.Text: {"path": "a.txt", "context": 3},
        problems.FedScale: {"mapping": "a.csv", "samples": "a"},
    }
    value = spec.model_validate(needed.get(spec, {}))
    written = value.model_dump_json()
    assert TypeAdapter(spec).validate_json(written) == value
