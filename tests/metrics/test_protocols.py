"""Protocols against a second implementation, on random, constant and real images, whole and masked."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.metrics import oracle

import emrdm.metrics
from emrdm.errors import ConfigError, InputError
from emrdm.metrics import PROTOCOLS, Data, find_protocols
from emrdm.metrics.protocols import METRICS, show

WEIGHTS = Path(emrdm.metrics.__file__).parent / "lpips_alex.safetensors"
RICE = Path(os.environ.get("EMRDM_DATA") or Path(__file__).parents[2].parent / "shared" / "data") / "rice256"


def images(bands, seed=0, size=(48, 56), spread=1.1):
    """A target and a prediction near it, both a little outside of [-1, 1] here and there."""
    random = np.random.default_rng(seed)
    target = random.uniform(-spread, spread, (bands, *size)).astype(np.float32)
    prediction = (target + random.normal(0, 0.2, target.shape)).astype(np.float32)
    return prediction, target


def smooth_images(bands, seed=0, size=(64, 64)):
    """Images with structure, on whole 8-bit values as files have them."""
    random = np.random.default_rng(seed)
    small = torch.from_numpy(random.uniform(0, 255, (1, bands, 8, 8)))
    target = torch.nn.functional.interpolate(small, size, mode="bicubic")[0].numpy().clip(0, 255).round()
    prediction = (target * 0.9 + 20 + random.normal(0, 6, target.shape)).clip(0, 255).round()
    return tuple((x.astype(np.float32) / np.float32(255) * 2 - 1).astype(np.float32) for x in (prediction, target))


def scored(name, prediction, target, **options):
    found = PROTOCOLS[name](torch.from_numpy(prediction)[None], torch.from_numpy(target)[None], **options)
    return {metric: value.item() for metric, value in found.items()}


def expected(name, prediction, target, levels, rgb):
    if name == "standard":
        return oracle.standard(prediction, target, levels, rgb, WEIGHTS)
    if name == "cuhk":
        return oracle.cuhk(prediction, target, WEIGHTS)
    if name == "sen12ms-cr":
        return oracle.sen12ms_cr(prediction, target)
    return oracle.sen2_mtc_new(prediction, target, WEIGHTS)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("bands", [3, 4, 13])
@pytest.mark.parametrize("make", [images, smooth_images])
def test_agrees_with_a_second_implementation(name, bands, make):
    prediction, target = make(bands, seed=bands)
    levels, rgb = (10000 if bands == 13 else 255), (2, 1, 0)
    ours = scored(name, prediction, target, data=Data(levels, rgb))
    theirs = expected(name, prediction, target, levels, rgb)
    assert set(ours) == set(theirs)
    assert set(ours) <= set(PROTOCOLS[name].metrics)
    for metric, value in theirs.items():
        assert ours[metric] == pytest.approx(value, abs=1e-6, rel=1e-6, nan_ok=True), metric


@pytest.mark.parametrize("name", PROTOCOLS)
def test_agrees_on_real_images(name):
    if not RICE.is_dir():
        pytest.skip("no real images: set EMRDM_DATA to where they are")
    from PIL import Image

    for folder, image in (("RICE1", "0"), ("RICE2", "5")):
        cloudy, label = (
            np.asarray(Image.open(RICE / folder / kind / f"{image}.webp").convert("RGB")).transpose(2, 0, 1)
            for kind in ("cloud", "label")
        )
        prediction, target = (x.astype(np.float32) / np.float32(255) * 2 - 1 for x in (cloudy, label))
        ours = scored(name, prediction, target, data=Data(255, (0, 1, 2)))
        for metric, value in expected(name, prediction, target, 255, (0, 1, 2)).items():
            assert ours[metric] == pytest.approx(value, abs=1e-5, rel=1e-6, nan_ok=True), metric


@pytest.mark.parametrize("name", PROTOCOLS)
def test_masked_scores_agree_with_a_second_implementation(name):
    prediction, target = smooth_images(3, seed=5)
    mask = np.random.default_rng(1).random((64, 64)) < 0.3
    mask[20:40, 20:40] = True
    masked = getattr(oracle, f"masked_{name.replace('-', '_')}")
    theirs = masked(prediction, target, mask, 255) if name == "standard" else masked(prediction, target, mask)
    regions = {"cloudy": torch.from_numpy(mask)[None]}
    ours = scored(name, prediction, target, data=Data(255, (0, 1, 2)), regions=regions)
    valid = scored(name, prediction, target, data=Data(255, (0, 1, 2)), valid=regions["cloudy"])
    for metric, value in theirs.items():
        assert ours[f"{metric}/cloudy"] == pytest.approx(value, abs=1e-6, rel=1e-6, nan_ok=True), metric
        if metric != "ssim" and name != "sen2-mtc-new":  # windows and stretches see what a region leaves out
            assert valid[metric] == ours[f"{metric}/cloudy"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_pixels_without_data_make_no_difference(name):
    prediction, target = smooth_images(3, seed=6)
    valid = torch.ones(1, 64, 64, dtype=torch.bool)
    valid[:, :20, 30:] = False
    there = valid[0].numpy()
    first = scored(name, prediction, target, data=Data(255, (0, 1, 2)), valid=valid)
    other = np.where(there, prediction, np.float32(0.9))
    assert scored(name, other, np.where(there, target, np.float32(-1)), data=Data(255, (0, 1, 2)), valid=valid) == first
    same = scored(name, np.where(there, target, np.float32(0.7)), target, data=Data(255, (0, 1, 2)), valid=valid)
    assert same["psnr"] == math.inf
    assert same["ssim"] == 1
    assert same.get("lpips", 0) == 0


@pytest.mark.parametrize("name", PROTOCOLS)
def test_small_images_have_the_scores_that_are_defined(name):
    prediction, target = smooth_images(3, size=(6, 6))
    found = scored(name, prediction, target, data=Data(255, (0, 1, 2)))
    assert math.isfinite(found["psnr"])
    assert math.isnan(found.get("lpips", math.nan))
    assert math.isnan(found["ssim"]) == (name in ("standard", "cuhk"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_region_of_all_pixels_scores_as_the_whole_and_an_empty_one_has_no_score(name):
    prediction, target = smooth_images(3)
    everything = torch.ones(1, 64, 64, dtype=torch.bool)
    found = scored(
        name, prediction, target, data=Data(255, (0, 1, 2)), regions={"all": everything, "none": ~everything}
    )
    for metric in PROTOCOLS[name].metrics:
        assert found[f"{metric}/all"] == pytest.approx(found[metric], rel=1e-12)
        assert math.isnan(found[f"{metric}/none"]) or metric == "zero_pixels"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_identical_images_are_perfect(name):
    _, target = smooth_images(3)
    found = scored(name, target, target, data=Data(255, (0, 1, 2)))
    assert found["psnr"] == math.inf
    assert found["ssim"] == 1
    for metric in {"mae", "rmse", "sam", "lpips"} & set(found):
        assert found[metric] == 0


@pytest.mark.parametrize("name", PROTOCOLS)
def test_constant_images_have_finite_scores(name):
    target, prediction = (np.full((3, 40, 40), value, np.float32) for value in (0.5, 0.25))
    found = scored(name, prediction, target, data=Data(255, (0, 1, 2)))
    theirs = expected(name, prediction, target, 255, (0, 1, 2))
    for metric, value in found.items():
        assert value == pytest.approx(theirs[metric], abs=2e-6)
        assert not math.isnan(value)
    if name == "sen2-mtc-new":
        assert found["psnr"] == math.inf  # the stretch makes every constant image white: a quirk of that protocol
    else:
        assert found["mae" if "mae" in found else "rmse"] > 0.12


def test_an_all_zero_pixel_is_left_out_by_standard_and_ruins_the_image_for_the_others():
    prediction, target = smooth_images(3)
    target[:, 3, 4] = -1
    standard = scored("standard", prediction, target, data=Data(255, None))
    assert standard["zero_pixels"] == 1
    assert math.isfinite(standard["sam"])
    assert standard["sam"] == pytest.approx(oracle.standard(prediction, target, 255, None)["sam"], rel=1e-9)
    assert math.isnan(scored("sen12ms-cr", prediction, target)["sam"])
    assert math.isfinite(scored("sen12ms-cr", prediction, target)["psnr"])


def test_a_batch_scores_as_its_images_alone():
    pairs = [images(3, seed) for seed in range(3)]
    prediction, target = (torch.from_numpy(np.stack(side)) for side in zip(*pairs, strict=True))
    for protocol in PROTOCOLS.values():
        together = protocol(prediction, target, data=Data(255, (0, 1, 2)))
        for i, (x, y) in enumerate(pairs):
            for metric, value in scored(protocol.name, x, y, data=Data(255, (0, 1, 2))).items():
                assert together[metric][i].item() == pytest.approx(value, rel=1e-5, nan_ok=True), (
                    protocol.name,
                    metric,
                )


def test_standard_rounds_to_the_depth_of_the_data():
    target = np.zeros((3, 40, 40), np.float32)
    nearly = target + np.float32(0.4 / 255 * 2)  # less than half a step: the same file
    assert (
        scored("standard", nearly, target, data=Data(255, None))["mae"]
        == scored("standard", target, target, data=Data(255, None))["mae"]
    )
    assert scored("standard", nearly, target, data=Data(10000, None))["mae"] > 0
    assert scored("standard", nearly, target, data=Data(None, None))["mae"] == pytest.approx(0.4 / 255, rel=1e-5)


def test_standard_clips_and_the_published_ones_do_not():
    target = np.full((3, 40, 40), 1.0, np.float32)
    beyond = np.full((3, 40, 40), 1.5, np.float32)
    assert scored("standard", beyond, target, data=Data(255, None))["mae"] == 0
    assert scored("sen12ms-cr", beyond, target)["mae"] == pytest.approx(0.25)
    assert scored("cuhk", beyond, target)["rmse"] == pytest.approx(0.25)
    assert scored("cuhk", beyond, target)["psnr"] == math.inf


def test_cuhk_cuts_to_whole_numbers():
    target = np.full((3, 40, 40), (100.0 / 255) * 2 - 1, np.float32)
    almost = np.full((3, 40, 40), (100.9 / 255) * 2 - 1, np.float32)
    next_one = np.full((3, 40, 40), (101.1 / 255) * 2 - 1, np.float32)
    assert scored("cuhk", almost, target)["psnr"] == math.inf
    assert scored("cuhk", next_one, target)["psnr"] == pytest.approx(20 * math.log10(255))


def test_a_global_change_of_contrast_cancels_in_sen2_mtc_new():
    random = np.random.default_rng(0)
    target = (random.uniform(0.01, 0.15, (3, 40, 40)) * 2 - 1).astype(np.float32)
    brighter = ((target + 1) * 1.2 - 1).astype(np.float32)
    assert scored("sen2-mtc-new", brighter, target)["psnr"] > 55
    assert scored("sen12ms-cr", brighter, target)["psnr"] < 38


def test_mistakes_are_one_line():
    good = torch.zeros(1, 3, 40, 40)
    with pytest.raises(ConfigError, match="unknown protocol 'standart': expected one of standard, cuhk,"):
        find_protocols(["standart"])
    with pytest.raises(InputError, match=r"prediction has shape \(1, 3, 40, 40\) and target \(1, 3, 40, 41\)"):
        PROTOCOLS["standard"](good, torch.zeros(1, 3, 40, 41))
    with pytest.raises(InputError, match="expected floating point"):
        PROTOCOLS["standard"](good.to(torch.uint8), good.to(torch.uint8))
    with pytest.raises(InputError, match=r"expected bool \(1, 40, 40\)"):
        PROTOCOLS["standard"](good, good, valid=torch.ones(1, 40, 40))


def test_protocols_are_found_in_order_and_once():
    assert [p.name for p in find_protocols(["cuhk", "standard", "cuhk"])] == ["cuhk", "standard"]


def test_every_protocol_describes_itself():
    for name, protocol in PROTOCOLS.items():
        assert protocol.name == name
        assert protocol.title
        assert protocol.quirks
        assert set(protocol.metrics) <= set(METRICS)
    assert show("psnr/cloudy", 20.126) == "20.13"
    assert show("ssim", math.nan) == "-"
    assert show("psnr", math.inf) == "inf"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "expected_means"),
    [
        ("RICE1", {"psnr": 18.6792, "ssim": 0.7932, "mae": 0.1157, "sam": 6.7205, "lpips": 0.1953}),
        ("RICE2", {"psnr": 23.2048, "ssim": 0.7514, "mae": 0.0661, "sam": 3.9167, "lpips": 0.3883}),
    ],
)
def test_the_cloudy_image_itself_scores_as_known(folder, expected_means, capsys):
    if not RICE.is_dir():
        pytest.skip("no real images: set EMRDM_DATA to where they are")
    from emrdm.cli import main

    assert main(["evaluate", folder.lower(), str(RICE / folder), "--protocol", "standard", "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)["methods"]["cloudy-image"]["protocols"]["standard"]
    for metric, mean in expected_means.items():
        assert found[metric]["mean"] == pytest.approx(mean, abs=6e-5)


def test_a_protocol_that_cuts_reflectances_is_for_reflectances():
    with pytest.raises(
        InputError, match="sen2-mtc-new is for reflectances from 0 to 10000, and this data is from 0 to"
    ):
        PROTOCOLS["sen2-mtc-new"].check_ends(0, 255)
    PROTOCOLS["sen2-mtc-new"].check_ends(0, 10000)
    PROTOCOLS["standard"].check_ends(0, 255)
