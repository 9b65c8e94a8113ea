"""A model's bands found in a data set's by name."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import emrdm
from emrdm.config import Band
from emrdm.data.bands import SENTINEL2, backscatter, eight_bit, reflectance
from emrdm.data.matching import Matching
from emrdm.errors import InputError
from emrdm.metrics import Data

TINY = emrdm.load_preset("tiny").model
TEMPORAL = emrdm.load_preset("sen2-mtc-new").model
RADAR = emrdm.load_preset("sen12ms-cr").model


def band(name, low=0, high=255, clip=True):
    return Band(name, "value", low, high, clip=clip)


def model(bands, aux=()):
    """The configuration of a small model with these bands."""
    inputs = ("noisy", "cloudy", "aux") if aux else ("noisy", "cloudy")
    return replace(TINY, bands=tuple(bands), aux=tuple(aux), inputs=inputs)


def image(bands, frames=1):
    return torch.rand(2, frames, len(bands), 4, 5) * 2 - 1


def test_equal_bands_leave_every_bit_as_it_is():
    for config in (TINY, TEMPORAL, RADAR):
        matching = Matching(config, config.bands, config.aux, frames=1)
        cloudy, aux = image(config.bands), image(config.aux) if config.aux else None
        frames, extra = matching.inputs(cloudy, aux)
        assert torch.equal(frames, cloudy)
        assert (extra is None and aux is None) or torch.equal(extra, aux)
        restored = cloudy[:, 0]
        assert matching.outputs(restored) is restored


@given(st.permutations(SENTINEL2))
@settings(deadline=None, max_examples=20)
def test_bands_in_another_order_are_found_by_name(names):
    bands = reflectance(*names)
    matching = Matching(RADAR, bands, backscatter("VH", "VV"), frames=1)
    cloudy = torch.arange(13.0).reshape(1, 1, 13, 1, 1) / 13
    aux = torch.tensor([0.25, 0.5]).reshape(1, 1, 2, 1, 1)
    frames, extra = matching.inputs(cloudy, aux)
    assert frames.flatten().tolist() == [cloudy[0, 0, names.index(band.name), 0, 0] for band in RADAR.bands]
    assert extra.flatten().tolist() == [0.5, 0.25]


def test_a_model_of_fewer_bands_takes_those_it_knows_and_the_rest_as_auxiliary():
    """Sen2_MTC_New's model on SEN12MS-CR's images: red, green and blue restored, near infrared out of the bands."""
    bands = reflectance(*SENTINEL2)
    matching = Matching(TEMPORAL, bands, backscatter("VV", "VH"), frames=3)
    cloudy, aux = image(bands, 3), image(("VV", "VH"), 3)
    frames, extra = matching.inputs(cloudy, aux)
    assert torch.equal(frames, cloudy[:, :, [3, 2, 1]])
    assert torch.equal(extra, cloudy[:, :, [7]])
    assert matching.places == [3, 2, 1]
    assert matching.data(10000) == Data(10000, (0, 1, 2))


def test_auxiliary_images_are_preferred_to_bands_of_the_same_name():
    config = model([band("red")], [band("nir")])
    matching = Matching(config, [band("nir"), band("red")], [band("nir")], frames=1)
    cloudy, aux = image("ab"), image("c")
    frames, extra = matching.inputs(cloudy, aux)
    assert torch.equal(frames, cloudy[:, :, 1:])
    assert torch.equal(extra, aux)


def test_auxiliary_bands_from_both_sources():
    config = model([band("red")], [band("VV"), band("nir", 0, 1000)])
    matching = Matching(config, [band("red"), band("nir", 0, 2000)], [band("VH"), band("VV")], frames=1)
    cloudy, aux = image("ab"), image("cd")
    _, extra = matching.inputs(cloudy, aux)
    torch.testing.assert_close(extra[:, :, 0], aux[:, :, 1], rtol=0, atol=1e-6)
    torch.testing.assert_close(extra[:, :, 1], ((cloudy[:, :, 1] + 1) * 2 - 1).clamp(-1, 1), rtol=0, atol=1e-6)


@given(
    low=st.floats(-100, 100),
    span=st.floats(10, 10000),
    other_low=st.floats(-100, 100),
    other_span=st.floats(10, 10000),
    clip=st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_another_range_means_the_same_numbers(low, span, other_low, other_span, clip):
    assume(min(low + span, other_low + other_span) - max(low, other_low) > 0.25 * span)  # others are refused
    ours, theirs = band("red", low, low + span), band("red", other_low, other_low + other_span, clip)
    matching = Matching(model([theirs]), [ours], [], frames=1)
    x = torch.linspace(-1, 1, 20).reshape(1, 1, 1, 4, 5)
    numbers = (x.double().numpy() + 1) / 2 * span + low
    frames, _ = matching.inputs(x, None)
    expected = (numbers - other_low) / other_span * 2 - 1
    expected = expected.clip(-1, 1) if clip else expected
    tolerance = 1e-5 * (1 + (abs(low) + span + abs(other_low)) / other_span)
    np.testing.assert_allclose(frames.numpy(), expected, rtol=1e-4, atol=tolerance)
    inside = torch.linspace(-3, 3, 20).reshape(1, 1, 4, 5)  # what a model restores is never clipped
    numbers = (inside.double().numpy() + 1) / 2 * other_span + other_low
    tolerance = 1e-5 * (1 + (abs(low) + other_span + abs(other_low)) / span)
    np.testing.assert_allclose(
        matching.outputs(inside).numpy(), (numbers - low) / span * 2 - 1, rtol=1e-4, atol=tolerance
    )


def test_clipping_alone_changes_what_goes_in_and_not_what_comes_out():
    free, clips = band("red", clip=False), band("red", clip=True)
    x = torch.tensor([-2.0, 0.25, 3.0]).reshape(1, 1, 1, 1, 3)
    into_clipping = Matching(model([clips]), [free], [], frames=1)
    assert into_clipping.inputs(x, None)[0].flatten().tolist() == [-1, 0.25, 1]
    into_free = Matching(model([free]), [clips], [], frames=1)
    assert torch.equal(into_free.inputs(x, None)[0], x)
    for matching in (into_clipping, into_free):
        restored = x[:, 0]
        assert matching.outputs(restored) is restored


@pytest.mark.parametrize(
    ("bands", "aux", "message"),
    [
        (("red", "blue"), (), "the model needs green, which the data set has not: it has red, blue"),
        (("B4", "B3", "B2"), ("VV",), "the model needs red, green, blue, which .* it has B4, B3, B2, VV"),
    ],
)
def test_a_missing_band_is_refused_by_name(bands, aux, message):
    with pytest.raises(InputError, match=message):
        Matching(TINY, [band(name) for name in bands], [band(name) for name in aux], frames=1)


def test_a_band_to_restore_is_not_taken_from_the_auxiliary_images():
    with pytest.raises(InputError, match="the model needs green, which the data set has not"):
        Matching(TINY, [band("red"), band("blue")], [band("green")], frames=1)


def test_a_missing_auxiliary_band_is_refused_by_name():
    with pytest.raises(InputError, match="the model needs VH, which"):
        Matching(RADAR, RADAR.bands, RADAR.aux[:1], frames=1)


def test_several_frames_need_a_model_of_several():
    with pytest.raises(InputError, match="the data set has 3 frames and the model takes one image: add --frames 1"):
        Matching(TINY, TINY.bands, (), frames=3)
    Matching(TEMPORAL, TEMPORAL.bands, TEMPORAL.aux, frames=7)


def test_pictures_are_not_taken_for_reflectances():
    config = emrdm.load_preset("sen2-mtc-new").model
    with pytest.raises(
        InputError, match=r"the model takes B4 as reflectance x 10000 and the data set has it as 8-bit value"
    ):
        Matching(config, eight_bit("B4", "B3", "B2", "B8"), (), frames=3)
    own = tuple(Band(name, "value", 0, 10000) for name in ("B4", "B3", "B2", "B8"))
    Matching(config, own, (), frames=3)  # what a user's own numbers mean, only the user knows


def test_ranges_that_have_nothing_in_common_are_refused():
    """An 8-bit model would see nothing but white."""
    with pytest.raises(
        InputError, match="the model takes red from 0 to 255, the data has 5000 to 20000: expected the same"
    ):
        Matching(model([band("red", 0, 255)]), [band("red", 5000, 20000)], [], frames=1)
