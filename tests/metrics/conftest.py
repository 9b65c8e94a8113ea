"""Set-up of the tests of the metrics."""

from importlib.util import find_spec

# The second implementation needs scikit-image; without it, as on a GPU host, what runs there can still be tested.
if find_spec("skimage") is None:
    collect_ignore = ["test_functions.py", "test_protocols.py", "test_official_lpips.py"]
