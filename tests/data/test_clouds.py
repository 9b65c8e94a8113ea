"""Drawn clouds: reproducible, as many as asked for, and composed as written down."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.data.clouds import STYLES, THIN_FROM, CloudStyle, _crop, _lattice, _refined, draw_clouds, draw_series
from emrdm.data.sample import CLEAR, SHADOW, THICK, THIN
from emrdm.errors import ConfigError, EmrdmError, InputError
from emrdm.noise import Window, fold, normal

RGB = ("red", "green", "blue")
STILL = replace(STYLES["mixed"], parallax=(0, 0))


def ground(bands=3, height=96, width=96, key=1):
    """A clear image with values all over [0, 1]."""
    return torch.special.ndtr(normal(key, Window(0, 0, height, width), bands=bands)[0, 0])


def at(value):
    return (value, value)


@pytest.mark.parametrize("style", STYLES)
def test_the_same_key_gives_the_same_bits_and_another_key_other_clouds(style):
    first, again, other = (draw_clouds(ground(), key, bands=RGB, style=STYLES[style]) for key in (5, 5, 6))
    for name in ("cloudy", "alpha", "shadow", "classes"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert (first.alpha - other.alpha).abs().mean() > 0.01


def test_no_global_random_state_is_touched():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    draw_series(ground(), 1, frames=2)
    assert torch.equal(torch.get_rng_state(), before)


@settings(max_examples=30, deadline=None)
@given(key=st.integers(0, 2**64 - 1), coverage=st.floats(0, 1), style=st.sampled_from(sorted(STYLES)))
def test_the_share_of_cloudy_pixels_is_the_coverage(key, coverage, style):
    drawn = draw_clouds(ground(1), key, style=replace(STYLES[style], coverage=at(coverage)))
    cloudy = (drawn.classes == THICK) | (drawn.classes == THIN)
    assert cloudy.float().mean().item() == pytest.approx(coverage, abs=0.02)  # two faint clouds may make one


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("style", STYLES)
def test_without_coverage_the_image_stays_bit_for_bit(style, dtype):
    clear = ground().to(dtype)
    drawn = draw_clouds(clear, 5, bands=RGB, style=replace(STYLES[style], coverage=(0, 0)))
    assert drawn.cloudy.dtype == dtype
    assert torch.equal(drawn.cloudy, clear)
    assert (drawn.classes == CLEAR).all()
    assert not drawn.alpha.any()
    assert not drawn.shadow.any()


@pytest.mark.parametrize("style", STYLES)
def test_full_coverage_leaves_no_pixel_clear(style):
    for key in range(5):
        drawn = draw_clouds(ground(1), key, style=replace(STYLES[style], coverage=(1, 1)))
        assert ((drawn.classes == THICK) | (drawn.classes == THIN)).all()


@settings(max_examples=25, deadline=None)
@given(
    key=st.integers(0, 10**6),
    shape=st.sampled_from([(1, 2, 2), (2, 3, 150), (13, 40, 2), (4, 64, 48)]),
    style=st.sampled_from(sorted(STYLES)),
    parallax=st.sampled_from([0.0, 0.7, 3.0, 9.0]),
)
def test_any_size_is_drawn_and_everything_stays_in_its_range(key, shape, style, parallax):
    clear = ground(*shape)
    drawn = draw_clouds(clear, key, style=replace(STYLES[style], parallax=at(parallax)))
    assert drawn.cloudy.shape == drawn.alpha.shape == clear.shape
    assert drawn.shadow.shape == drawn.classes.shape == clear.shape[1:]
    assert drawn.classes.dtype == torch.uint8
    assert set(drawn.classes.unique().tolist()) <= {CLEAR, THICK, THIN, SHADOW}
    for values in (drawn.cloudy, drawn.alpha, drawn.shadow):
        assert values.min() >= 0  # false for NaN too
        assert values.max() <= 1


def test_the_image_is_ground_seen_through_opacity_and_shadow_plus_the_cloud_alone():
    clear = ground(key=2).double()
    drawn = draw_clouds(clear, 7, bands=RGB)
    alone = draw_clouds(torch.zeros_like(clear), 7, bands=RGB)
    assert torch.equal(alone.alpha, drawn.alpha)  # clouds do not depend on the ground
    assert torch.equal(alone.shadow, drawn.shadow)
    expected = (1 - drawn.alpha) * (1 - drawn.shadow) * clear + alone.cloudy
    assert drawn.shadow.max() > 0.1
    torch.testing.assert_close(drawn.cloudy, expected, rtol=0, atol=1e-12)


def test_classes_follow_opacity_and_shadow():
    drawn = draw_clouds(ground(1, 256, 256), 4, bands=["green"], style=STILL)
    opacity, shadow, classes = drawn.alpha[0], drawn.shadow, drawn.classes
    assert torch.equal(classes == THICK, opacity >= 0.6)
    assert torch.equal(classes == THIN, (opacity >= THIN_FROM) & (opacity < 0.6))
    assert torch.equal(classes == SHADOW, (shadow >= 0.1) & (opacity < THIN_FROM))
    assert all((classes == kind).any() for kind in (CLEAR, THICK, THIN, SHADOW))


def test_thin_cloud_is_more_opaque_the_shorter_the_wave():
    names = ["B1", "B2", "B3", "B4", "B8", "B11", "B12"]
    style = replace(STYLES["thin"], parallax=(0, 0))
    alpha = draw_clouds(ground(len(names)), 3, bands=names, style=style).alpha
    visible = alpha[0] > 0.02
    assert visible.any()
    for shorter, longer in itertools.pairwise(alpha):
        assert (shorter[visible] > longer[visible]).all()
    assert (alpha[-1][visible] < 0.55 * alpha[1][visible]).all()


def test_thick_cloud_is_as_opaque_but_darker_in_the_short_wave_infrared():
    names = ["red", "swir1", "swir2"]
    style = replace(STYLES["thick"], thick=(1, 1), coverage=(0.5, 0.5), parallax=(0, 0))
    drawn = draw_clouds(torch.zeros(3, 96, 96), 3, bands=names, style=style)
    assert torch.equal(drawn.alpha[0], drawn.alpha[2])
    red, middle, long = drawn.cloudy[:, drawn.classes == THICK].mean(1).tolist()
    assert red > 1.2 * middle > 1.2 * long


def test_the_cirrus_band_sees_thin_cloud_and_hardly_thick_cloud():
    thin, thick = (
        draw_clouds(torch.zeros(2, 96, 96), 3, bands=["B10", "B3"], style=replace(STILL, thick=at(share))).alpha
        for share in (0, 1)
    )
    assert torch.equal(thin[0], thin[1])
    assert thick[1].max() > 0.8
    torch.testing.assert_close(thick[0], 1 - (1 - thick[1]) ** 0.25, rtol=0, atol=1e-5)  # a quarter of the depth


def test_radar_sees_neither_cloud_nor_shadow():
    clear = ground(2)
    drawn = draw_clouds(clear, 3, bands=["VV", "VH"], style=STYLES["thick"])
    assert drawn.shadow.max() > 0.1
    assert torch.equal(drawn.cloudy, clear)


def test_unknown_bands_are_neutral_and_names_may_be_written_in_several_ways():
    clear = ground(2)
    unnamed = draw_clouds(clear, 3, style=STILL)
    assert torch.equal(unnamed.alpha[0], unnamed.alpha[1])
    assert torch.equal(unnamed.alpha, draw_clouds(clear, 3, bands=["pan", "B3"], style=STILL).alpha)
    several = [draw_clouds(clear, 3, bands=bands).cloudy for bands in (["B2", "B8A"], ["b02", "b8a"], ["blue", "B8A"])]
    assert torch.equal(several[0], several[1])
    assert torch.equal(several[0], several[2])


@pytest.mark.parametrize("azimuth", [0, 45, 90, 135, 200, 270, 330])
def test_shadow_lies_where_the_cloud_between_it_and_the_sun_puts_it(azimuth):
    drop = 14
    style = replace(STYLES["thick"], sun=at(azimuth), drop=at(drop), coverage=(0.3, 0.3))
    drawn = draw_clouds(ground(1, 192, 192), 9, style=style)
    assert not drawn.shadow[drawn.classes == THICK].any()
    down, right = round(-drop * math.cos(math.radians(azimuth))), round(drop * math.sin(math.radians(azimuth)))
    cloud = ((drawn.classes == THICK) | (drawn.classes == THIN)).float()
    cloud = torch.nn.functional.max_pool2d(cloud[None], 3, 1, 1)[0]  # shadows are blurred by a pixel
    rows, columns = (drawn.classes == SHADOW).nonzero().T

    def clouded(sign):
        r, c = rows + sign * down, columns + sign * right
        inside = (r >= 0) & (r < 192) & (c >= 0) & (c < 192)
        return cloud[r[inside], c[inside]].mean()

    assert len(rows) > 500
    assert clouded(+1) > 0.99
    assert clouded(-1) < 0.8


def test_without_parallax_clouds_lie_in_the_same_place_in_all_bands():
    alpha = draw_clouds(ground(4), 3, style=STILL).alpha
    assert all(torch.equal(alpha[0], other) for other in alpha[1:])


def test_parallax_moves_clouds_along_the_track_from_the_first_band_to_the_last():
    alpha = draw_clouds(ground(3), 3, style=replace(STYLES["thick"], parallax=(4, 4))).alpha
    middle = alpha[0, 10:-10, 10:-10]

    def misfit(shift):
        row, column = 10 + shift[0], 10 + shift[1]
        return (alpha[2, row : row + middle.shape[0], column : column + middle.shape[1]] - middle).abs().mean().item()

    best = min(itertools.product(range(-6, 7), repeat=2), key=misfit)
    assert best == (4, -1)  # 4 pixels towards an azimuth of 193 degrees
    assert misfit(best) < 0.3 * misfit((0, 0))


def test_a_date_does_not_depend_on_how_many_dates_are_drawn():
    three, five = (draw_series(ground(), 8, frames=frames, bands=RGB) for frames in (3, 5))
    for short, long in zip(three, five[:3], strict=True):
        assert torch.equal(short.cloudy, long.cloudy)
        assert torch.equal(short.classes, long.classes)


def test_dates_differ_and_run_from_nearly_clear_to_nearly_overcast():
    series = draw_series(ground(1, 32, 32), 8, frames=40)
    covers = [((date.classes == THICK) | (date.classes == THIN)).float().mean().item() for date in series]
    assert sum(cover < 0.1 for cover in covers) >= 4
    assert sum(cover > 0.9 for cover in covers) >= 4
    assert all(not torch.equal(a.alpha, b.alpha) for a, b in itertools.pairwise(series))


def test_the_ground_of_a_date_changes_by_a_few_percent_at_most():
    clear = 0.2 + 0.6 * ground()
    cloudless = replace(STYLES["mixed"], coverage=(0, 0))
    still = draw_series(clear, 8, frames=2, style=cloudless, drift=0)
    assert all(torch.equal(date.cloudy, clear) for date in still)
    changes = [date.cloudy - clear for date in draw_series(clear, 8, frames=6, style=cloudless, drift=0.05)]
    largest = [change.abs().max().item() for change in changes]
    assert max(largest) <= 0.8 * 0.05 * 4 / 3 + 0.05 / 4
    assert max(largest) > 0.01
    assert len(set(largest)) == 6


def test_the_sun_stands_still_in_a_series():
    """Shadows of all dates fit one direction: the cloud lies on the same side of them."""
    sides = []
    for date in draw_series(ground(1, 128, 128), 21, frames=6, style=replace(STYLES["thick"], drop=(16, 16))):
        cloud = ((date.classes == THICK) | (date.classes == THIN)).float()
        directions = torch.arange(0, 360, 45).deg2rad()
        steps = [(round(-16 * math.cos(a)), round(16 * math.sin(a))) for a in directions.tolist()]
        fits = [
            (cloud.roll((-row, -column), (0, 1)) * date.shadow)[16:-16, 16:-16].sum().item() for row, column in steps
        ]
        sides.append(int(np.argmax(fits)))
    assert max(sides.count(side) for side in sides) >= 5


def test_refining_a_lattice_keeps_the_surface():
    """At the coarse knots a cubic B-spline is (1, 4, 1) / 6 of its neighbours, on the coarse and on the fine lattice."""
    coarse = normal(4, Window(0, 0, 12, 9), bands=1)[0, 0, 0].double()
    fine = _refined(coarse)
    assert fine.shape == (20, 14)

    def knots(c, step):
        for _ in range(2):
            c = ((c[:-2] + 4 * c[1:-1] + c[2:]) / 6).T
        return c[::step, ::step]

    torch.testing.assert_close(knots(fine[1:, 1:], 2)[:8, :5], knots(coarse[1:, 1:], 1)[:8, :5])


@pytest.mark.parametrize("start", [3.0, 3.25, 4.5, 2.875])
def test_moving_a_map_by_part_of_a_pixel_is_exact_for_parabolas(start):
    place = torch.arange(12, dtype=torch.float64)
    maps = (1 + 0.5 * place + 0.25 * place**2).expand(2, 3, 12)
    expected = 1 + 0.5 * (place[:5] + start) + 0.25 * (place[:5] + start) ** 2
    torch.testing.assert_close(_crop(maps, 2, start, 5), expected.expand(2, 3, 5))


def test_a_lattice_has_about_unit_spread_once_it_is_smoothed():
    for octaves in (1, 4, 7):
        spread = torch.stack(
            [_lattice(fold(2, i), (200, 200), octaves, 0.55, torch.device("cpu")) for i in range(12)]
        ).std()
        assert 0.6 < spread < 2


@pytest.mark.parametrize(
    ("clear", "words"),
    [
        (torch.zeros(8, 8), "(bands, height, width)"),
        (torch.zeros(1, 3, 8, 8), "(bands, height, width)"),
        (torch.zeros(3, 1, 8), "2 x 2"),
        (torch.zeros(0, 8, 8), "bands"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), "floating point"),
        (np.zeros((3, 8, 8), np.float32), "ndarray"),
        (torch.full((3, 8, 8), 1.5), "0 to 1"),
        (torch.full((3, 8, 8), -0.1), "0 to 1"),
        (torch.full((3, 8, 8), math.nan), "NaN"),
    ],
)
def test_images_that_do_not_fit_are_refused_in_one_line(clear, words):
    for draw in (draw_clouds, lambda image, key: draw_series(image, key, frames=2)):
        with pytest.raises(InputError, match=r".") as caught:
            draw(clear, 1)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bands": ["red"]},
        {"bands": "rgb"},
        {"bands": [1, 2, 3]},
        {"key": 1.5},
        {"frames": 0},
        {"frames": 2.0},
        {"drift": -0.1},
        {"drift": math.nan},
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_one_line(wrong):
    arguments = {"clear": ground(), "key": 1, "frames": 2, **wrong}
    with pytest.raises(EmrdmError) as caught:
        draw_series(**arguments)
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"coverage": (0.5, 0.2)},
        {"coverage": (0, 1.1)},
        {"coverage": 0.5},
        {"coverage": (0, 0.5, 1)},
        {"thick": (-0.1, 0.5)},
        {"size": (0, 10)},
        {"octaves": 0},
        {"octaves": 2.5},
        {"stretch": (0.5, 1)},
        {"sun": (math.nan, 90)},
        {"drop": (0, math.inf)},
        {"parallax": ("a", "b")},
    ],
)
def test_styles_out_of_range_are_refused_with_the_name_of_the_field(wrong):
    with pytest.raises(ConfigError, match=f"clouds.{next(iter(wrong))}") as caught:
        CloudStyle(**wrong)
    assert "expected" in str(caught.value)


@pytest.mark.gpu
def test_clouds_on_the_gpu_are_those_on_the_cpu_up_to_rounding():
    clear = ground(3, 256, 256)
    for key in range(4):
        here, there = draw_clouds(clear, key, bands=RGB), draw_clouds(clear.cuda(), key, bands=RGB)
        assert there.cloudy.is_cuda
        assert (here.cloudy - there.cloudy.cpu()).abs().mean() < 1e-4
        assert (here.classes == there.classes.cpu()).float().mean() > 0.999


def test_styles_have_names():
    for name, style in STYLES.items():
        assert torch.equal(draw_clouds(ground(), 5, style=name).cloudy, draw_clouds(ground(), 5, style=style).cloudy)
    by_name, by_itself = (draw_series(ground(), 5, frames=2, style=style) for style in ("thin", STYLES["thin"]))
    assert torch.equal(by_name[1].cloudy, by_itself[1].cloudy)


@pytest.mark.parametrize("draw", [draw_clouds, partial(draw_series, frames=2)])
def test_other_styles_are_refused(draw):
    with pytest.raises(InputError, match="style is 'thinn'; did you mean 'thin'"):
        draw(ground(), 5, style="thinn")
    with pytest.raises(InputError, match="style is None: expected one of thin, thick, mixed, varied"):
        draw(ground(), 5, style=None)
