"""The studies that faults are done to, each made undisturbed once."""

import pytest

from tests.campaigns.faults.campaign import Studies


@pytest.fixture(scope="package")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Studies:
    return Studies(tmp_path_factory.mktemp("studies"))
