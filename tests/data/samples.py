"""Comparing samples."""

import torch

IMAGES = ("cloudy", "target", "aux", "classes", "valid")


def assert_same(a, b):
    """Two samples are equal, bit for bit."""
    assert (a.name, a.dates, dict(a.repaired)) == (b.name, b.dates, dict(b.repaired))
    for image in IMAGES:
        x, y = getattr(a, image), getattr(b, image)
        assert (x is None) == (y is None), image
        assert x is None or (x.dtype == y.dtype and torch.equal(x, y)), image
