"""The metrics as plain functions: properties, and scikit-image."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from emrdm.errors import InputError
from emrdm.metrics import lpips, mae, psnr, rmse, sam, ssim, uniform_taps, zero_spectra


def pair(bands=3, size=(33, 40), seed=0):
    random = np.random.default_rng(seed)
    y = random.random((2, bands, *size))
    x = np.clip(y + random.normal(0, 0.1, y.shape), 0, 1)
    return torch.from_numpy(x), torch.from_numpy(y)


def test_psnr_and_ssim_agree_with_scikit_image():
    x, y = pair()
    for i in range(2):
        a, b = x[i].numpy(), y[i].numpy()
        assert psnr(x, y)[i].item() == pytest.approx(peak_signal_noise_ratio(b, a, data_range=1), abs=1e-10)
        gaussian = structural_similarity(
            b, a, channel_axis=0, data_range=1, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
        )
        assert ssim(x, y)[i].item() == pytest.approx(gaussian, abs=1e-10)
        flat = structural_similarity(b, a, channel_axis=0, data_range=1)
        ours = ssim(x, y, taps=uniform_taps(7), sample_covariance=True)[i].item()
        assert ours == pytest.approx(flat, abs=1e-10)


def test_zero_padding_counts_the_border():
    x, y = pair(size=(20, 20))
    assert ssim(x, y, border="zeros").shape == (2,)
    assert not torch.allclose(ssim(x, y, border="zeros"), ssim(x, y))
    padded = (torch.nn.functional.pad(v, (5, 5, 5, 5)) for v in (x, y))
    torch.testing.assert_close(ssim(x, y, border="zeros"), ssim(*padded))


@settings(max_examples=25, deadline=None)
@given(angle=st.floats(0, 90), scale=st.floats(0.01, 10), seed=st.integers(0, 100))
def test_sam_is_the_angle_whatever_the_brightness(angle, scale, seed):
    y = torch.tensor([1.0, 0.0], dtype=torch.float64).reshape(1, 2, 1, 1).expand(1, 2, 4, 4)
    radians = math.radians(angle)
    x = scale * torch.tensor([math.cos(radians), math.sin(radians)], dtype=torch.float64).reshape(1, 2, 1, 1)
    assert sam(x.expand(1, 2, 4, 4), y).item() == pytest.approx(angle, abs=1e-9)


def test_opposite_spectra_are_half_a_turn_apart():
    y = torch.ones(1, 3, 2, 2)
    assert sam(-y, y).item() == pytest.approx(180)


def test_zero_spectra_are_left_out_or_ruin_the_image():
    x, y = pair()
    y[0, :, 1, 1] = 0
    x[0, :, 2, 2] = 0
    assert zero_spectra(x, y).tolist() == [2, 0]
    keep = torch.ones(2, 33, 40, dtype=torch.bool)
    keep[0, 1, 1] = keep[0, 2, 2] = False
    torch.testing.assert_close(sam(x, y), sam(x, y, where=keep))
    assert sam(x, y, zeros="nan")[0].isnan()
    assert not sam(x, y, zeros="nan")[1].isnan()
    assert not sam(x, y, zeros="nan", where=keep)[0].isnan()
    nothing = torch.zeros(1, 3, 8, 8)
    assert sam(nothing, nothing).isnan().all()  # no pixel has an angle


def test_pixel_scores_by_hand():
    x, y = torch.tensor([1.0, 3.0]).reshape(1, 1, 1, 2), torch.zeros(1, 1, 1, 2)
    assert mae(x, y).item() == 2
    assert rmse(x, y).item() == pytest.approx(math.sqrt(5))
    assert psnr(x, y, data_range=10).item() == pytest.approx(20 * math.log10(10 / math.sqrt(5)))
    only = torch.tensor([[[False, True]]])
    assert mae(x, y, where=only).item() == 3
    assert mae(x, y, where=~only & only).isnan().all()


def test_a_masked_score_does_not_see_other_pixels():
    x, y = pair()
    where = torch.zeros(2, 33, 40, dtype=torch.bool)
    where[:, 12:20, 12:20] = True
    other = x.clone()
    other[:, :, :2] = torch.nan
    for score in (mae, rmse, psnr, sam):
        torch.testing.assert_close(score(other, y, where=where), score(x, y, where=where))


def test_lpips_grows_with_distance_and_is_symmetric():
    x, y = (v.float() * 2 - 1 for v in pair(size=(64, 64)))
    nearer = (x + y) / 2
    assert (lpips(nearer, y) < lpips(x, y)).all()
    torch.testing.assert_close(lpips(x, y), lpips(y, x))
    where = torch.zeros(2, 64, 64, dtype=torch.bool)
    where[:, :32] = True
    both = (lpips(x, y, where=where) + lpips(x, y, where=~where)) / 2
    torch.testing.assert_close(both, lpips(x, y), rtol=0.2, atol=0)  # features straddle the border


def test_what_cannot_be_scored_is_one_line():
    x, y = pair()
    with pytest.raises(InputError, match="LPIPS needs red, green and blue"):
        lpips(x[:, :2], y[:, :2])
    with pytest.raises(InputError, match="SSIM needs 11 x 11 at least"):
        ssim(x[..., :8], y[..., :8])
    with pytest.raises(InputError, match=r"expected two equal shapes \(B, C, H, W\)"):
        mae(x[0], y[0])


@pytest.mark.parametrize("score", [mae, rmse, psnr, ssim, sam, zero_spectra, lpips])
def test_arrays_are_refused_in_one_line(score):
    x, y = pair()
    with pytest.raises(InputError, match="prediction is a ndarray: expected a tensor, as torch"):
        score(x.numpy(), y.numpy())
    with pytest.raises(InputError, match="target is a NoneType: expected a tensor"):
        score(x, None)
    with pytest.raises(InputError, match="where is a ndarray: expected a tensor"):
        score(x, y, where=np.ones((2, 33, 40), bool))
