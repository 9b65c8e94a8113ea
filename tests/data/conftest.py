"""Set-up of the tests of the data layer."""

from importlib.util import find_spec
from pathlib import Path

import pytest

# Made-up GeoTIFFs are written by rasterio. On a host without it, such as a GPU host, clouds can still be tested.
if find_spec("rasterio") is None:
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.stem != "test_clouds"]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of a case, made once for all tests: copy it with ``trees.linked`` before changing anything."""
    from tests.data import trees

    made = {}

    def build(name):
        if name not in made:
            made[name] = trees.CASES[name].build(tmp_path_factory.mktemp("case"))
        return made[name]

    return build
