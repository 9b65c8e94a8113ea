"""Set-up of the tests of the data layer."""

import pytest
from tests.data import trees


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of a case, made once for all tests: copy it with ``trees.linked`` before changing anything."""
    made = {}

    def build(name):
        if name not in made:
            made[name] = trees.CASES[name].build(tmp_path_factory.mktemp("case"))
        return made[name]

    return build
