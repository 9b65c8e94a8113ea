"""The model as users call it: layouts, units, dates, missing frames, seeds, and bad input in one clear line."""

import copy
import dataclasses
import datetime
import logging
import math
import pickle

import numpy as np
import pytest
import torch
from tests.networks.test_hdit import awake

from emrdm import EMRDM, ConfigError, EmrdmError, InputError, WeightsError, embedded, load_preset
from emrdm.config import SamplerConfig
from emrdm.diffusion import MeanReverting
from emrdm.diffusion.preconditioning import Preconditioning
from emrdm.images import pad_by_reflection
from emrdm.noise import normal

RNG = np.random.default_rng(0)


def make(preset, seed=1):
    model = EMRDM.from_preset(preset, seed=seed)
    awake(model.network, seed)
    return model


@pytest.fixture(scope="module")
def mono():
    return make("tiny")


@pytest.fixture(scope="module")
def multi():
    return make("tiny-temporal")


def pixels(*shape, dtype=np.float32):
    return (np.random.default_rng(sum(shape)).random(shape) * 255).astype(dtype)


def test_the_default_model_is_the_one_inside_the_package():
    model = EMRDM.default()
    assert model.is_default
    assert [band.name for band in model.config.bands] == ["red", "green", "blue"]
    assert model.digest() == EMRDM.load(embedded.default_weights()).digest()
    assert not EMRDM.from_preset("tiny").is_default


@pytest.mark.parametrize("size", [(2, 2), (2, 50), (7, 9), (16, 16), (31, 45), (64, 40)])
def test_any_height_and_width(mono, size):
    clear = mono.restore(pixels(3, *size))
    assert clear.shape == (3, *size)
    assert np.isfinite(clear).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int16, np.float32, np.float64, np.dtype(">u2")])
def test_any_number_type(mono, dtype):
    image = pixels(3, 16, 20, dtype=dtype)
    clear = mono.restore(image)
    assert isinstance(clear, np.ndarray)
    assert clear.dtype == np.float32
    assert np.array_equal(clear, mono.restore(image.astype(np.float32)))


def test_numpy_in_numpy_out_torch_in_torch_out(mono):
    image = pixels(3, 16, 20)
    from_torch = mono.restore(torch.from_numpy(image))
    assert isinstance(from_torch, torch.Tensor)
    assert np.array_equal(from_torch.numpy(), mono.restore(image))
    assert not from_torch.requires_grad


def test_layouts_of_one_image_models(mono):
    batch = pixels(2, 3, 16, 20)
    together = mono.restore(batch)
    assert together.shape == (2, 3, 16, 20)
    assert np.allclose(mono.restore(batch[0]), together[0], atol=1e-3)


def test_layouts_of_series_models(multi):
    cloudy, aux = pixels(2, 3, 3, 16, 20), pixels(2, 3, 1, 16, 20)
    together = multi.restore(cloudy, aux)
    assert together.shape == (2, 3, 16, 20)
    series = multi.restore(cloudy[0], aux[0])
    assert series.shape == (3, 16, 20)
    assert np.allclose(series, together[0], atol=1e-3)
    assert multi.restore(cloudy[0, 0], aux[0, 0]).shape == (3, 16, 20)


@pytest.mark.parametrize("count", range(1, 9))
def test_any_number_of_frames(multi, count):
    assert multi.restore(pixels(count, 3, 16, 16), pixels(count, 1, 16, 16)).shape == (3, 16, 16)


def test_the_input_is_left_alone(mono, multi):
    image = pixels(3, 16, 20)
    before = image.copy()
    mono.restore(image)
    assert np.array_equal(image, before)
    series, aux = torch.full((2, 3, 16, 16), float("nan")), torch.zeros(2, 1, 16, 16)
    series[0] = 3.0
    multi.restore(series, aux, present=[True, False])
    assert torch.isnan(series[1]).all()


def test_the_seed_decides(mono):
    image = pixels(3, 16, 20)
    assert np.array_equal(mono.restore(image, seed=5), mono.restore(image, seed=5))
    assert not np.array_equal(mono.restore(image, seed=5), mono.restore(image, seed=6))


def test_samples_of_a_batch_get_noise_of_their_own(mono):
    image = pixels(3, 16, 20)
    twice = mono.restore(np.stack([image, image]))
    assert not np.allclose(twice[0], twice[1], atol=1e-2)


def test_the_order_of_dated_frames_makes_no_difference(multi):
    cloudy, aux = pixels(3, 3, 16, 20), pixels(3, 1, 16, 20)
    dates = ["2024-05-01", "2024-05-11", "2024-05-21"]
    expected = multi.restore(cloudy, aux, dates=dates)
    order = [2, 0, 1]
    assert np.array_equal(multi.restore(cloudy[order], aux[order], dates=[dates[i] for i in order]), expected)
    others = [datetime.date.fromisoformat(date) for date in dates]
    assert np.array_equal(multi.restore(cloudy, aux, dates=others), expected)
    assert np.array_equal(multi.restore(cloudy, aux, dates=[np.datetime64(d) for d in dates]), expected)
    assert np.array_equal(multi.restore(cloudy, aux, dates=[121.0, 131.0, 141.0]), expected)


def test_a_missing_frame_gives_what_leaving_it_out_gives(multi):
    cloudy, aux = pixels(2, 4, 3, 16, 20), pixels(2, 4, 1, 16, 20)
    present = np.array([[True, False, True, True], [False, True, False, True]])
    cloudy[~present] = np.nan
    found = multi.restore(cloudy, aux, present=present)
    alone = multi.restore(cloudy[0, present[0]], aux[0, present[0]])
    assert np.allclose(found[0], alone, atol=1e-3)
    one_for_all = multi.restore(cloudy[:1], aux[:1], present=present[0])
    assert np.allclose(one_for_all[0], alone, atol=1e-3)


def test_units_are_those_of_the_bands():
    """At its initial values the network is silent, and a restoration is a known multiple of its input in [-1, 1]."""
    model = EMRDM.from_preset("tiny")
    image = pixels(3, 16, 16)
    scaled = model.restore(image / 255 * 2 - 1, scaled=True)
    assert np.allclose(model.restore(image), (scaled + 1) / 2 * 255, atol=1e-3)


def test_values_outside_a_band_are_clipped_where_it_says_so_and_that_is_logged(mono, caplog):
    image = pixels(3, 16, 16)
    outside = image.copy()
    outside[0, 0, 0], outside[1, 5, 5] = 400, -7
    inside = np.clip(outside, 0, 255)
    with caplog.at_level(logging.INFO, logger="emrdm"):
        found = mono.restore(outside)
    assert "cloudy: clipped 0.26 % of the values" in caplog.text
    assert np.array_equal(found, mono.restore(inside))
    open_bands = tuple(dataclasses.replace(band, clip=False) for band in mono.config.bands)
    model = EMRDM(dataclasses.replace(mono.config, bands=open_bands), network=mono.network)
    assert not np.array_equal(model.restore(outside), model.restore(inside))


def test_callbacks_see_every_step_and_steps_can_be_changed(mono):
    seen = []
    mono.restore(pixels(3, 16, 16), steps=7, callback=seen.append)
    assert [step.index for step in seen] == list(range(7))


@pytest.mark.parametrize("method", ["euler", "stochastic", "heun", "multistep"])
def test_every_sampler_can_be_asked_for(mono, method):
    churn = 2.5 if method in ("stochastic", "heun") else 0.0
    clear = mono.restore(pixels(3, 16, 16), sampler=SamplerConfig(method=method, steps=4, churn=churn))
    assert np.isfinite(clear).all()


def test_every_step_of_a_run_draws_noise_of_its_own(mono, monkeypatch):
    drawn = []

    def record(keys, window, **options):
        drawn.append(tuple(keys))
        return normal(keys, window, **options)

    monkeypatch.setattr("emrdm.model.normal", record)
    mono.restore(pixels(2, 3, 16, 16), sampler=SamplerConfig(steps=4, churn=2.0))
    assert len(drawn) == 5
    assert len({key for keys in drawn for key in keys}) == 10


@pytest.mark.parametrize("method", ["euler", "stochastic", "heun", "multistep"])
def test_missing_frames_may_hold_anything_in_sampling_and_training(multi, method):
    generator = torch.Generator().manual_seed(0)
    cloudy, aux = torch.rand(2, 3, 3, 16, 16, generator=generator), torch.rand(2, 3, 1, 16, 16, generator=generator)
    present = torch.tensor([[True, False, True], [True, True, False]])
    noise = torch.randn(cloudy.shape, generator=generator)
    sampler = SamplerConfig(method=method, steps=3, churn=1.0 if method in ("stochastic", "heun") else 0.0)

    def run(filler):
        frames, extra = (x.masked_fill(~present[:, :, None, None, None], filler) for x in (cloudy, aux))
        image = multi.sample(frames, extra, present=present, sampler=sampler, noise=lambda draw: noise)
        losses = multi.losses(cloudy[:, 0], frames, extra, sigma=torch.tensor([0.2, 1.0]), noise=noise, present=present)
        return image, losses.detach()

    for a, b in zip(run(0.0), run(math.nan), strict=True):
        assert torch.isfinite(b).all()
        assert torch.equal(a, b)


def test_a_sample_without_any_frame_is_refused_in_training_too(multi):
    cloudy, aux = torch.rand(1, 2, 3, 16, 16), torch.rand(1, 2, 1, 16, 16)
    with pytest.raises(InputError, match="without any frame"):
        multi.losses(cloudy[:, 0], cloudy, aux, sigma=torch.ones(1), noise=cloudy, present=torch.zeros(1, 2).bool())
    with pytest.raises(InputError, match="only bands may differ"):
        multi.losses(cloudy[:, 0], cloudy, aux[:, :1], sigma=torch.ones(1), noise=cloudy)


def test_a_mean_reverting_process_becomes_part_of_the_configuration(tmp_path):
    model = EMRDM(load_preset("tiny").model, process=MeanReverting(1.5))
    model.save(tmp_path / "m.safetensors")
    assert EMRDM.load(tmp_path / "m.safetensors").config.process.alpha == 1.5


def test_images_are_extended_by_mirroring():
    row = torch.arange(4.0).expand(2, 1, 3, 4)
    wide = pad_by_reflection(row, 3, 11)
    assert wide[0, 0, 0].tolist() == [0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2]
    tall = pad_by_reflection(row.transpose(-1, -2), 7, 3)
    assert tall[0, 0, :, 0].tolist() == [0, 1, 2, 3, 2, 1, 0]


def test_results_out_of_all_bounds_are_refused(mono):
    with pytest.raises(EmrdmError, match="the result holds NaN or infinite values"):
        mono.restore(np.full((3, 16, 16), 3e38, np.float32), scaled=True)


def test_results_are_ordinary_tensors(mono):
    clear = mono.restore(torch.rand(3, 16, 16) * 255)
    clear += 1
    weight = torch.ones(3, 1, 1, requires_grad=True)
    (clear * weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_network_of_another_precision_works(dtype):
    model = make("tiny")
    image = pixels(3, 16, 16)
    expected = model.restore(image, exact=True)
    model.network.to(dtype)
    found = model.restore(image)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < (15 if dtype == torch.bfloat16 else 0.01)


@pytest.mark.parametrize("seed", [-1, 2**70, np.int64(3), True])
def test_any_whole_number_is_a_seed(mono, seed):
    image = pixels(3, 16, 16)
    assert np.array_equal(mono.restore(image, seed=seed), mono.restore(image, seed=int(seed)))
    EMRDM.from_preset("tiny", seed=int(seed))


def test_dates_with_a_time_zone_are_ordered_in_utc(multi):
    utc, east = datetime.UTC, datetime.timezone(datetime.timedelta(hours=9))
    early = datetime.datetime(2024, 5, 1, 8, tzinfo=east)  # an hour before the next one
    late = datetime.datetime(2024, 5, 1, 0, tzinfo=utc)
    cloudy, aux = SERIES
    expected = multi.restore(cloudy, aux, dates=["2024-05-01", "2024-05-02"])
    assert np.array_equal(multi.restore(cloudy, aux, dates=[early, late]), expected)
    assert np.array_equal(multi.restore(cloudy[::-1], aux[::-1], dates=[late, early]), expected)


def test_restoring_does_not_disturb_training(mono):
    mono.network.train()
    mono.network.mapping.eval()
    mono.restore(pixels(3, 16, 16))
    assert mono.network.training
    assert not mono.network.mapping.training
    mono.network.eval()


def test_gradients_flow_in_training(multi):
    clear, cloudy, aux = torch.rand(2, 3, 16, 16), torch.rand(2, 3, 3, 16, 16), torch.rand(2, 3, 1, 16, 16)
    losses = multi.losses(clear, cloudy, aux, sigma=torch.tensor([0.1, 2.0]), noise=torch.randn_like(cloudy))
    assert losses.shape == (2,)
    losses.mean().backward()
    assert all(p.grad is not None for p in multi.network.parameters())
    multi.network.zero_grad()


def test_pixels_without_a_known_target_do_not_count_in_training(multi):
    generator = torch.Generator().manual_seed(0)
    clear, cloudy, aux = (
        torch.rand(shape, generator=generator) for shape in ((2, 3, 16, 16), (2, 3, 3, 16, 16), (2, 3, 1, 16, 16))
    )
    present, known = torch.tensor([[True] * 3, [True, False, True]]), torch.ones(2, 16, 16, dtype=torch.bool)
    rest = {
        "sigma": torch.tensor([0.1, 2.0]),
        "noise": torch.randn(cloudy.shape, generator=generator),
        "present": present,
    }

    def run(clear, valid):
        losses = multi.losses(clear, cloudy, aux, valid=valid, **rest)
        return losses.detach(), *torch.autograd.grad(losses.sum(), list(multi.network.parameters()))

    for a, b in zip(run(clear, None), run(clear, known), strict=True):
        assert torch.equal(a, b)
    known[:, 3:9, 5:] = False
    holes = clear.masked_fill(~known[:, None], math.nan)
    for a, b in zip(run(clear, known), run(holes, known), strict=True):
        assert torch.isfinite(b).all()
        assert torch.equal(a, b)
    for wrong in (known[:1], known.float(), known[:, None]):
        with pytest.raises(InputError, match=r"expected bool of shape \(2, 16, 16\)"):
            multi.losses(clear, cloudy, aux, valid=wrong, **rest)


def test_a_few_steps_of_training_lower_the_loss():
    model = EMRDM.from_preset("tiny")
    optimizer = torch.optim.AdamW(model.network.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    clear = torch.rand(4, 3, 16, 16, generator=generator).round() * 2 - 1
    cloudy = (0.5 * clear + 0.5).unsqueeze(1)
    history = []
    for _ in range(120):
        sigma = torch.exp(-1.2 + 1.2 * torch.randn(4, generator=generator))
        loss = model.losses(clear, cloudy, sigma=sigma, noise=torch.randn(cloudy.shape, generator=generator)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert sum(history[-10:]) < 0.5 * sum(history[:10])


def test_the_same_seed_gives_the_same_initial_weights_and_leaves_torchs_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    a, b, c = (EMRDM.from_preset("tiny", seed=seed).network.state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["patch_in.proj.weight"], c["patch_in.proj.weight"])


NAN = pixels(3, 16, 16)
NAN[1, 2, 3] = np.nan
BAD_MONO = [
    (lambda m: m.restore(pixels(4, 16, 16)), "cloudy has 4 bands, shape (4, 16, 16): expected 3 (red, green, blue)"),
    (lambda m: m.restore(pixels(16, 16, 3)), "expected 3 (red, green, blue); bands come before rows and columns"),
    (lambda m: m.restore(pixels(16, 16)), "cloudy has 2 axes, shape (16, 16): expected (C, H, W) or (B, C, H, W)"),
    (lambda m: m.restore(pixels(1, 2, 3, 16, 16)), "cloudy has 5 axes"),
    (
        lambda m: m.restore(NAN),
        "cloudy has 1 NaN or infinite values, the first at sample 0, frame 0, band green, row 2, column 3",
    ),
    (lambda m: m.restore(pixels(3, 16, 16) * np.inf), "NaN or infinite values"),
    (lambda m: m.restore(pixels(3, 1, 16)), "cloudy is 16 x 1 pixels: expected at least 2 x 2"),
    (lambda m: m.restore(pixels(3, 16, 1)), "cloudy is 1 x 16 pixels: expected at least 2 x 2"),
    (lambda m: m.restore(pixels(3, 0, 16)), "cloudy has no pixels"),
    (lambda m: m.restore(pixels(0, 3, 16, 16)), "expected at least one"),
    (lambda m: m.restore([[1, 2], [3, 4]]), "cloudy is a list: expected a numpy array or a torch tensor"),
    (lambda m: m.restore(pixels(3, 16, 16).astype(complex)), "cloudy is of type complex128: expected real numbers"),
    (
        lambda m: m.restore(torch.zeros(3, 16, 16, dtype=torch.bool)),
        "cloudy is of type torch.bool: expected real numbers",
    ),
    (lambda m: m.restore(np.array(["a"] * 12).reshape(3, 2, 2)), "expected real numbers"),
    (lambda m: m.restore(pixels(3, 16, 16), pixels(2, 16, 16)), "aux was given: this model takes no auxiliary bands"),
    (lambda m: m.restore(pixels(3, 16, 16), dates=["2024-05-01"]), "1 date given: this model restores one image"),
    (lambda m: m.restore(pixels(3, 16, 16), steps=0), "sampler.steps is 0: expected at least 1"),
]
BAD_MULTI = [
    (lambda m: m.restore(pixels(0, 3, 16, 16), pixels(0, 1, 16, 16)), "cloudy has no frames (L = 0)"),
    (lambda m: m.restore(pixels(2, 3, 16, 16)), "aux is missing: this model needs 1 auxiliary bands (nir)"),
    (lambda m: m.restore(pixels(2, 4, 16, 16)), "give nir separately, as aux"),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 17)),
        "aux has shape (2, 1, 16, 17) beside cloudy (2, 3, 16, 16)",
    ),
    (lambda m: m.restore(pixels(2, 3, 16, 16), pixels(3, 1, 16, 16)), "expected all axes but the bands to be equal"),
    (lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 2, 16, 16)), "aux has 2 bands"),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), dates=["2024-05-01"]),
        "1 date given for 2 frames",
    ),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), dates=["2024-05-01"] * 2),
        "date 2024-05-01 was given twice",
    ),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), dates=["May", "June"]),
        "date 'May' is not a date: expected one such as '2024-05-01'",
    ),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), dates=["2024-05-01", 3.0]),
        "dates are of different kinds",
    ),
    (
        lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), present=[True]),
        "expected true or false for each of 2 frames",
    ),
    (lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), present=[1, 0]), "expected true or false"),
    (lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16), present=[False, False]), "without any frame"),
    (lambda m: m.restore(pixels(2, 3, 16, 16), pixels(2, 1, 16, 16) * np.nan), "aux has 512 NaN or infinite values"),
]


SERIES = pixels(2, 3, 16, 16), pixels(2, 1, 16, 16)
BAD_MULTI += [
    (lambda m: m.restore(*SERIES, dates=5), "dates is a int: expected a list with one date a frame"),
    (lambda m: m.restore(*SERIES, dates="20240501"), "dates is a str"),
    (lambda m: m.restore(*SERIES, dates=[np.datetime64("NaT", "D"), np.datetime64("2024-05-01")]), "is not a date"),
    (lambda m: m.restore(*SERIES, dates=[float("nan"), 1.0]), "date nan is not a date"),
    (lambda m: m.restore(*SERIES, dates=[None, None]), "date None is not a date"),
    (lambda m: m.restore(*SERIES, present="yes"), "expected true or false for each of 2 frames"),
    (lambda m: m.restore(*SERIES, present=[[True], [True, False]]), "expected true or false for each of 2 frames"),
    (lambda m: m.restore(*SERIES, present=np.array([True, None])), "present is object of shape (2,)"),
]
BAD_MONO += [
    (lambda m: m.restore(np.ma.masked_less(pixels(3, 16, 16), 9)), "cloudy is a masked array"),
    (lambda m: m.restore(torch.zeros(3, 16, 16, device="meta")), "a tensor without plain numbers"),
    (lambda m: m.restore(torch.zeros(3, 16, 16).to_sparse()), "a tensor without plain numbers"),
    (lambda m: m.restore(pixels(3, 16, 16), seed="x"), "seed is 'x': expected a whole number"),
    (lambda m: m.restore(pixels(3, 16, 16), seed=1.5), "seed is 1.5: expected a whole number"),
    (lambda m: m.restore(pixels(3, 16, 16), sampler={"steps": 3}), "sampler is a dict: expected a SamplerConfig"),
    (lambda m: m.restore(pixels(3, 16, 16), steps="3"), "sampler.steps is '3': expected a whole number"),
    (lambda m: m.restore(pixels(3, 16, 16), steps=2.5), "sampler.steps is 2.5: expected a whole number"),
    (lambda m: m.restore(pixels(3, 16, 16), steps=10**9), "sampler.steps is 1000000000: expected at most 10000"),
    (lambda m: m.sample(torch.zeros(3, 16, 16)), "cloudy is not a tensor (B, L, C, H, W)"),
    (lambda m: EMRDM(m.config, network=lambda x, c_noise: x), "network is a function: expected a torch.nn.Module"),
    (lambda m: m.restore(pixels(3, 16, 16), seed=np.array([1.5])), "seed is 1.5: expected a whole number"),
    (lambda m: m.restore(pixels(3, 16, 16), seed=np.array([1, 2])), "2 seeds were given for 1 images"),
    (lambda m: EMRDM(load_preset("tiny")), "config is a Preset: expected a ModelConfig"),
    (lambda m: EMRDM.load(None), "weights file is a NoneType: expected a path"),
    (lambda m: EMRDM.load("a\0b"), "has a null character"),
    (lambda m: m.to("nonsense"), "device 'nonsense' cannot be used"),
    (lambda m: m.save("/"), "/ is a folder: expected the name of a file to write"),
    (lambda m: m.save("/no/such/folder/m.safetensors"), "cannot be written: No such file or directory"),
    (lambda m: EMRDM.from_published(5, preset="tiny"), "checkpoint is a int: expected a path"),
    (lambda m: EMRDM.from_preset(5), "preset is a int: expected a name or a .toml or .yaml file"),
]


@pytest.mark.parametrize(("call", "message"), BAD_MONO)
def test_bad_images_are_refused_in_one_line(mono, call, message):
    with pytest.raises((InputError, ConfigError)) as caught:
        call(mono)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("call", "message"), BAD_MULTI)
def test_bad_series_are_refused_in_one_line(multi, call, message):
    with pytest.raises(InputError) as caught:
        call(multi)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_without_its_auxiliary_bands_says_so_in_training_too(multi):
    clear, cloudy = torch.rand(1, 3, 16, 16), torch.rand(1, 2, 3, 16, 16)
    with pytest.raises(InputError, match="aux is missing"):
        multi.losses(clear, cloudy, sigma=torch.ones(1), noise=torch.randn_like(cloudy))


# ---------------------------------------------------------------- parts of one's own


class Line(torch.nn.Module):
    """A network that is none of ours: a number for each channel."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, channels_in * channels_out).view(channels_out, -1))

    def forward(self, x, c_noise, present=None):
        assert c_noise.shape == (len(x),)
        if x.ndim == 5:
            x = x.mean(1) if present is None else (x * present[:, :, None, None, None]).sum(1)
        return torch.einsum("oi,bihw->bohw", self.weight, x) * c_noise[:, None, None, None]


@pytest.mark.parametrize("preset", ["tiny", "tiny-temporal"])
def test_a_network_of_ones_own_restores_and_trains(preset, tmp_path):
    config = load_preset(preset).model
    model = EMRDM(config, network=Line(config.in_channels, config.out_channels))
    frames = (2,) if config.network.multi_temporal else ()
    aux = pixels(*frames, 1, 19, 23) if config.aux else None
    image = pixels(*frames, 3, 19, 23)
    clear = model.restore(image, aux)
    assert clear.shape == (3, 19, 23)
    assert np.array_equal(clear, model.restore(image, aux, exact=True))
    if frames:
        alone = model.restore(image[:1], aux[:1])
        assert np.allclose(model.restore(image, aux, present=[True, False]), alone, atol=1e-3)
    cloudy = torch.rand(2, *(frames or (1,)), 3, 16, 16)
    extra = None if aux is None else torch.rand(2, *frames, 1, 16, 16)
    model.losses(
        cloudy[:, 0], cloudy, extra, sigma=torch.full((2,), 2.0), noise=torch.randn_like(cloudy)
    ).sum().backward()
    assert model.network.weight.grad.abs().sum() > 0
    assert model.path() == "CPU: plain network in float32 (Line is not known here)"
    assert (model.numbers(), model.device.type) == ("float32", "cpu")
    assert np.array_equal(pickle.loads(pickle.dumps(model)).restore(image, aux), clear)
    with pytest.raises(WeightsError, match="a model with network Line cannot be saved: the file could not describe it"):
        model.save(tmp_path / "m.safetensors")
    with pytest.raises(WeightsError, match="Line has no published layout"):
        model.to_published(tmp_path / "m.ckpt")
    assert not list(tmp_path.iterdir())


def test_a_network_without_weights_or_with_other_images_is_no_puzzle():
    config = load_preset("tiny").model

    class Zero(torch.nn.Module):
        def forward(self, x, c_noise):
            return torch.zeros_like(x[:, :3])

    class Gray(torch.nn.Module):
        def forward(self, x, c_noise):
            return x[:, :1]

    assert EMRDM(config, network=Zero()).restore(pixels(3, 16, 16)).shape == (3, 16, 16)
    with pytest.raises(
        InputError, match=r"the network gave an image of shape \(1, 1, 16, 16\): expected \(1, 3, 16, 16\)"
    ):
        EMRDM(config, network=Gray()).restore(pixels(3, 16, 16))


def test_preconditioning_and_process_of_ones_own_are_used_told_apart_and_not_saved(mono, tmp_path):
    class Louder(Preconditioning):
        def __call__(self, sigma, k, frames=1):
            found = super().__call__(sigma, k, frames)
            return found._replace(c_skip=found.c_skip * 0.5)

    class Slower(MeanReverting):
        pass

    other = dataclasses.replace(mono.config, preconditioning=Louder())
    plain = dataclasses.replace(mono.config, preconditioning=Preconditioning())
    mine, theirs = EMRDM(other, network=mono.network), EMRDM(plain, network=mono.network)
    assert not np.array_equal(mine.restore(pixels(3, 16, 16)), theirs.restore(pixels(3, 16, 16)))
    assert mine.digest() != theirs.digest()
    assert mine.digest() == EMRDM(other, network=mono.network).digest()
    with pytest.raises(WeightsError, match="a model with preconditioning Louder cannot be saved"):
        mine.save(tmp_path / "m.safetensors")
    slower = EMRDM(plain, network=mono.network, process=Slower())
    with pytest.raises(WeightsError, match="a model with process Slower cannot be saved"):
        slower.save(tmp_path / "m.safetensors")
    assert len({model.digest() for model in (mine, theirs, slower)}) == 3


def test_seeds_may_be_an_array(mono):
    batch = pixels(2, 3, 16, 16)
    expected = mono.restore(batch, seed=[1, 2])
    assert np.array_equal(mono.restore(batch, seed=np.array([1, 2], np.uint16)), expected)
    assert np.array_equal(mono.restore(batch, seed=torch.tensor([1, 2])), expected)


@pytest.mark.slow
def test_the_full_size_network_restores_an_image():
    preset = load_preset("sen12ms-cr")
    model = EMRDM.from_preset("sen12ms-cr")
    generator = np.random.default_rng(0)
    cloudy = generator.integers(0, 10_000, (13, 256, 256), dtype=np.uint16)
    sar = generator.uniform(-25, 0, (2, 256, 256)).astype(np.float32)
    clear = model.restore(cloudy, aux=sar, seed=0)
    assert clear.shape == (13, 256, 256)
    assert np.isfinite(clear).all()
    assert preset.model.sampler.steps == 5


def test_a_full_size_preset_restores_a_small_image():
    """The short sibling of the test above: all 39 million parameters, few pixels."""
    model = EMRDM.from_preset("sen12ms-cr")
    clear = model.restore(pixels(13, 24, 20) * 39, aux=-pixels(2, 24, 20) / 11, steps=2)
    assert clear.shape == (13, 24, 20)
    assert np.isfinite(clear).all()


@pytest.mark.gpu
def test_cpu_and_gpu_agree(multi):
    cloudy, aux = pixels(3, 3, 40, 50), pixels(3, 1, 40, 50)
    on_cpu = multi.restore(cloudy, aux, seed=3)
    on_gpu = multi.to("cuda").restore(cloudy, aux, seed=3)
    multi.to("cpu")
    assert np.abs(on_cpu - on_gpu).max() < 0.1  # of 255


def test_another_network_in_its_place_is_used():
    model, other = EMRDM.from_preset("tiny", seed=1), EMRDM.from_preset("tiny", seed=2)
    for one in (model, other):
        with torch.no_grad():
            for parameter in one.network.parameters():
                parameter.add_(0.01)
    cloudy = torch.rand(1, 1, len(model.config.bands), 32, 32) * 2 - 1
    before = model.sample(cloudy)
    model.network = other.network
    assert torch.equal(model.sample(cloudy), other.sample(cloudy))
    assert not torch.equal(model.sample(cloudy), before)


def test_models_can_be_copied_and_pickled_after_use():
    model = EMRDM.from_preset("tiny")
    cloudy = torch.rand(1, 1, len(model.config.bands), 32, 32) * 2 - 1
    expected = model.sample(cloudy)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.sample(cloudy), expected)
