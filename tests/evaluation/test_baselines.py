"""Simple methods do what they say."""

import numpy as np
import pytest
import torch

from emrdm.data import CLEAR, NODATA, SHADOW, THICK, THIN, Batch
from emrdm.evaluation.baselines import (
    BASELINES,
    _guided,
    _minimum,
    _running_mean,
    dark_channel,
    least_cloudy,
    mosaic,
    temporal_median,
)


def batch(cloudy, classes=None):
    cloudy = torch.as_tensor(cloudy, dtype=torch.float32)
    return Batch(
        names=tuple(map(str, range(len(cloudy)))),
        cloudy=cloudy,
        target=None,
        aux=None,
        classes=None if classes is None else torch.as_tensor(classes, dtype=torch.uint8),
        valid=None,
        dates=((),) * len(cloudy),
        repaired=({},) * len(cloudy),
    )


def hazy_scene(haze=0.4, side=96, seed=0):
    """A scene with dark objects everywhere, under a uniform veil and a thicker corner, as He's prior supposes."""
    random = np.random.default_rng(seed)
    clear = random.uniform(0, 0.6, (3, side, side))
    clear[:, ::3, ::3] = 0.0
    veil = np.full((side, side), haze)
    veil[:20, :20] = 0.95
    return clear, clear * (1 - veil) + veil


def test_dehazing_brings_a_hazy_scene_nearer_to_the_truth():
    clear, hazy = hazy_scene()
    image = torch.from_numpy(hazy * 2 - 1)[None, None]
    restored = (dark_channel(batch(image), (0, 1, 2))[0].numpy() + 1) / 2
    inside = np.s_[:, 40:, 40:]
    before, after = (np.abs(x[inside] - clear[inside]).mean() for x in (hazy, restored))
    assert after < before / 2
    assert restored.min() >= 0
    assert restored.max() <= 1


def test_dehazing_leaves_a_clear_scene_nearly_alone():
    random = np.random.default_rng(1)
    clear = random.uniform(0, 1, (3, 96, 96))
    clear[:, ::3, ::3] = 0.0
    image = torch.from_numpy(clear * 2 - 1)[None, None]
    restored = (dark_channel(batch(image), (0, 1, 2))[0].numpy() + 1) / 2
    assert np.abs(restored - clear).mean() < 0.03


def test_the_filters_against_plain_loops():
    x = torch.rand(1, 1, 9, 11, dtype=torch.float64)
    for i in range(9):
        for j in range(11):
            near = x[0, 0, max(0, i - 2) : i + 3, max(0, j - 2) : j + 3]
            assert _minimum(x, 5)[0, 0, i, j] == near.min()
            assert _running_mean(_running_mean(x, 2, 2), 2, 3)[0, 0, i, j].item() == pytest.approx(near.mean().item())


def test_the_guided_filter_keeps_what_the_guide_explains():
    guide = torch.zeros(1, 1, 64, 64, dtype=torch.float64)
    guide[..., 32:] = 1
    noisy = 0.2 + 0.6 * guide + 0.05 * torch.randn(1, 1, 64, 64, dtype=torch.float64)
    smooth = _guided(guide, noisy, radius=8)
    assert (smooth - (0.2 + 0.6 * guide)).abs().max() < 0.05
    assert smooth.std() < noisy.std()


def series():
    """Three frames of one band, 1 x 4 pixels, with masks."""
    cloudy = [[[[[0.1, 0.9, 0.3, 0.4]]], [[[0.2, 0.2, 0.9, 0.9]]], [[[0.9, 0.3, 0.9, 0.9]]]]]
    classes = [[[[CLEAR, THICK, CLEAR, NODATA]], [[CLEAR, CLEAR, THIN, THICK]], [[THICK, CLEAR, SHADOW, THICK]]]]
    return batch(cloudy, classes)


def test_the_mosaic_takes_the_clear_pixels_and_else_the_least_affected():
    assert mosaic(series())[0, 0, 0].tolist() == pytest.approx([0.15, 0.25, 0.3, 0.9])


def test_the_median_leaves_out_frames_without_data():
    assert temporal_median(series())[0, 0, 0].tolist() == pytest.approx([0.2, 0.3, 0.9, 0.9])


def test_the_least_cloudy_frame_is_found_by_masks_or_else_by_darkness():
    masked = series()
    torch.testing.assert_close(least_cloudy(masked, None)[0], masked.cloudy[0, 0])  # two frames are equal: the first
    bare = batch(masked.cloudy)
    torch.testing.assert_close(least_cloudy(bare, None)[0], masked.cloudy[0, 0])
    darker = batch(masked.cloudy.flip(1))
    torch.testing.assert_close(least_cloudy(darker, None)[0], masked.cloudy[0, 0])


def test_where_nothing_is_known_the_first_frame_stands_in():
    nothing = batch(torch.rand(1, 2, 3, 4, 4), torch.full((1, 2, 4, 4), NODATA))
    torch.testing.assert_close(mosaic(nothing), nothing.cloudy[:, 0])
    torch.testing.assert_close(temporal_median(nothing), nothing.cloudy[:, 0])


def test_each_method_applies_where_it_makes_sense():
    one, several = batch(torch.rand(1, 1, 3, 4, 4)), batch(torch.rand(1, 2, 3, 4, 4))
    masked = batch(torch.rand(1, 2, 3, 4, 4), torch.zeros(1, 2, 4, 4))

    def applying(b, colours):
        return {name for name, baseline in BASELINES.items() if baseline.applies(b, colours)}

    assert applying(one, (0, 1, 2)) == {"cloudy-image", "dark-channel"}
    assert applying(one, None) == {"cloudy-image"}
    assert applying(several, (0, 1, 2)) == {"least-cloudy", "temporal-median"}
    assert applying(masked, None) == {"least-cloudy", "temporal-median", "mosaic"}
    for name in applying(masked, None):
        assert BASELINES[name].predict(masked, None).shape == (1, 3, 4, 4)
