"""`fedsim crate`: what is in the archive, what its description says, and a validator's verdict."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.addons.crate import write_crate
from fedsim.addons.crate.writing import NO_LICENCE, PROFILE
from fedsim.cli import app
from fedsim.results.record.manifest import MANIFEST
from tests.runs import small

METADATA = "ro-crate-metadata.json"
ADA = "https://orcid.org/0000-0002-1825-0097"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two seeds with a comparison, and a run that has not ended."""
    out = tmp_path_factory.mktemp("study") / "runs"
    result = fedsim.run(small(name="small", stop={"rounds": 3}, seeds=2), out=out)
    assert CliRunner().invoke(app, ["compare", str(out), "--target", "objective=9"]).exit_code == 0
    begun = out / "base" / "seed-3"
    shutil.copytree(out / "base" / "seed-1", begun)
    (begun / "summary.json").unlink()
    return result.folder


def entities(archive: Path) -> dict[str, dict[str, Any]]:
    """Return what an archive describes, by identifier."""
    with ZipFile(archive) as file:
        graph = json.loads(file.read(METADATA))["@graph"]
    return {each["@id"]: each for each in graph}


def references(value: Any) -> list[str]:
    """Return the identifiers in a value of an entity."""
    listed = value if isinstance(value, list) else [value]
    return [each["@id"] for each in listed]


@pytest.mark.slow
def test_it_holds_every_file_of_finished_runs_and_describes_each(
    study: Path, tmp_path: Path
) -> None:
    archive = write_crate(study, tmp_path / "out.zip")
    known = entities(archive)
    with ZipFile(archive) as file:
        names = set(file.namelist()) - {METADATA}
        for name in names:
            assert file.read(name) == (study / name).read_bytes()
    assert names == set(references(known["./"]["hasPart"]))
    assert {"study.json", "comparison/costs.csv", "base/seed-2/events.parquet"} <= names
    assert not [name for name in names if "seed-3" in name or name.startswith(".")]
    for name in names:
        assert known[name]["@type"] == "File"
        assert known[name]["contentSize"] == str((study / name).stat().st_size)
    assert all(known[name].get("encodingFormat") for name in names)
    assert known["base/seed-1/events.parquet"]["description"].startswith("the event log")


def test_each_run_is_an_action_of_a_version_of_fedsim(study: Path, tmp_path: Path) -> None:
    known = entities(write_crate(study, tmp_path / "out.zip"))
    root = known["./"]
    assert references(root["conformsTo"]) == [PROFILE]
    actions = [known[each] for each in references(root["mentions"])]
    assert [action["name"] for action in actions] == ["Run of base, seed 1", "Run of base, seed 2"]
    versions = json.loads((study / "base/seed-1" / MANIFEST).read_text())["versions"]
    for number, action in enumerate(actions, 1):
        assert action["@type"] == "CreateAction"
        assert references(action["object"]) == [f"base/seed-{number}/scenario.yaml"]
        assert f"base/seed-{number}/{MANIFEST}" in references(action["result"])
        assert action["startTime"] <= action["endTime"]
        (program,) = references(action["instrument"])
        assert known[program]["name"] == "fedsim"
        assert known[program]["softwareVersion"] == fedsim.__version__
        libraries = [known[each] for each in references(known[program]["softwareRequirements"])]
        found = {each["name"]: each["softwareVersion"] for each in libraries}
        assert found == {name: each for name, each in versions.items() if name != "fedsim"}


def test_title_licence_and_authors_are_those_given_and_no_others(
    study: Path, tmp_path: Path
) -> None:
    known = entities(write_crate(study, tmp_path / "plain.zip"))
    assert known["./"]["name"] == "small"
    assert known["./"]["license"] == NO_LICENCE
    assert not [each for each in known.values() if each["@type"] == "Person"]
    words = ("--name", "Phones", "--description", "Which one?", "--author", f"Ada L. <{ADA}>")
    licence = "https://spdx.org/licenses/CC-BY-4.0"
    more = ("--author", "B. C.", "--license", licence, "--out", str(tmp_path / "named.zip"))
    done = CliRunner().invoke(app, ["crate", str(study), *words, *more])
    assert done.exit_code == 0, done.output
    known = entities(tmp_path / "named.zip")
    root = known["./"]
    assert (root["name"], root["description"]) == ("Phones", "Which one?")
    assert [known[each]["name"] for each in references(root["author"])] == ["Ada L.", "B. C."]
    assert known[ADA]["@type"] == "Person"
    assert known[references(root["license"])[0]]["name"] == "CC-BY-4.0"


def test_it_lies_in_the_study_and_holds_no_archive(study: Path) -> None:
    done = CliRunner().invoke(app, ["crate", str(study)])
    assert done.exit_code == 0, done.output
    first = study / "crate.zip"
    assert f"archive in {first}, " in done.stdout
    assert write_crate(study, name="again") == study / "crate-2.zip"
    with ZipFile(study / "crate-2.zip") as file:
        assert not [name for name in file.namelist() if name.endswith(".zip")]
    first.unlink()
    (study / "crate-2.zip").unlink()


@pytest.mark.parametrize(
    ("place", "out", "words"),
    [
        ("nowhere", "x.zip", "there is no folder"),
        (".", "x.zip", "there are no runs in"),
        ("runs", "x.tar", "expected a file that ends in .zip"),
        ("runs/base", "x.zip", "there are no runs in"),
    ],
)
def test_what_is_no_study_is_refused(
    place: str, out: str, words: str, study: Path, tmp_path: Path
) -> None:
    folder = str(study.parent / place)
    done = CliRunner().invoke(app, ["crate", folder, "--out", str(tmp_path / out)])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_without_the_library_one_sentence_has_the_command(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocrate", None)
    done = CliRunner().invoke(app, ["crate", str(study)])
    assert done.exit_code == 2
    assert "pip install '.[crate]'" in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) == 1


VALIDATE = """
import json, sys
from pathlib import Path
import rocrate
import rocrate_validator.utils.document_loader as loader
from rocrate_validator import models, services

# The context is not fetched: rocrate's own, of a later version, has the same terms. The two checks
# that it can be fetched are left out.
context = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text())
loader._fetch_json_ld = lambda _: context
for profile in ("ro-crate-1.1", "process-run-crate-0.5"):
    result = services.validate(services.ValidationSettings(
        rocrate_uri=sys.argv[1], profile_identifier=profile,
        requirement_severity=models.Severity.REQUIRED,
        skip_checks=["ro-crate-1.1_3.1", "ro-crate-1.1_3.2"],
    ))
    print(profile, result.passed(), [issue.message for issue in result.get_issues()])
"""


@pytest.mark.slow
def test_a_validator_accepts_it(study: Path, tmp_path: Path) -> None:
    command = shutil.which("rocrate-validator")
    if command is None:
        pytest.skip("there is no rocrate-validator on the path: pipx install roc-validator")
    python = Path(command).parent / "python"
    archive = write_crate(study, tmp_path / "out.zip", authors=[f"Ada L. <{ADA}>"])

    def verdict(file: Path) -> list[str]:
        words = [str(python), "-c", VALIDATE, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.splitlines()

    assert verdict(archive) == ["ro-crate-1.1 True []", "process-run-crate-0.5 True []"]
    broken = tmp_path / "broken.zip"
    with ZipFile(archive) as old, ZipFile(broken, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b'"instrument"', b'"tool"'))
    assert "process-run-crate-0.5 False" in verdict(broken)[1]
