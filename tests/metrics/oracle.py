"""A second, plain numpy implementation of the image metrics, one function per protocol.

It was written from the description of the published implementation (its section 8, "Metrics as computed") and from the
wording of the `standard` protocol, independently of the package's source, so that the tests can compare the package
with something that does not share its mistakes.

Every function takes one image, float32 (C, H, W) in the network's range [-1, 1].  Scaling to the protocol's range is
done in float32, in the described order of operations, because rounding and truncation depend on it; everything after
it is float64.  LPIPS is given where `weights` names the safetensors file of the AlexNet variant, and left out otherwise.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.numpy import load_file
from scipy.ndimage import correlate1d
from skimage.metrics import structural_similarity

Array = np.ndarray
Scores = dict[str, float]

GRAY = 0.298912 + 0.586611 + 0.114478  # section 8, CUHK: gray weights of a channel that was expanded to three
SHIFT = (-0.030, -0.088, -0.188)  # LPIPS v0.1, scaling layer
SCALE = (0.458, 0.448, 0.450)
CONVOLUTIONS = ((0, 4, 2), (3, 1, 2), (6, 1, 1), (8, 1, 1), (10, 1, 1))  # AlexNet: index, stride, padding
POOLED = (3, 6)  # AlexNet: convolutions with a 3x3 stride 2 max pooling before them


# --------------------------------------------------------------------------------------------------------------------
# Scaling, in float32


def _unit(x: Array) -> Array:
    """Section 8: y = (x+1)/2, not clipped."""
    return (np.asarray(x, np.float32) + np.float32(1)) / np.float32(2)


def scale_standard(x: Array, levels: int) -> Array:
    """Protocol `standard`: [0, 1], clipped and rounded to the data's own depth; the quotient is float64."""
    y = np.clip(_unit(x), np.float32(0), np.float32(1))
    return np.round(y * np.float32(levels)).astype(np.float64) / levels


def scale_cuhk(x: Array) -> Array:
    """Section 8, CUHK: whole numbers 0..255, truncation of clamp(255*y, 0, 255), as float64."""
    return np.trunc(np.clip(np.float32(255) * _unit(x), np.float32(0), np.float32(255))).astype(np.float64)


def scale_sen12ms_cr(x: Array) -> Array:
    """Section 8, SEN12MS-CR: y = (x+1)/2, not clipped."""
    return _unit(x).astype(np.float64)


def scale_sen2_mtc_new(x: Array) -> Array:
    """Section 8, Sen2_MTC_New: reflectance cut at 2000 and stretched from min to max, all channels together."""
    half = np.float32(0.5)
    v = (np.asarray(x, np.float32) * half + half) * np.float32(10000) + half
    v = np.trunc(np.clip(v, np.float32(0), np.float32(10000)))
    v = np.clip(v, np.float32(0), np.float32(2000))
    v = v - v.min()
    top = v.max()
    return (v / top if top > 0 else np.ones_like(v)).astype(np.float64)


# --------------------------------------------------------------------------------------------------------------------
# Metrics, in float64; images are (C, H, W), or (C, N) where only some pixels are selected


def _mean(values: Array) -> float:
    """The mean, NaN of nothing."""
    return float(np.mean(values)) if values.size else float("nan")


def _rmse(p: Array, t: Array) -> float:
    """Root of the mean squared difference over all channels and pixels."""
    return float(np.sqrt(_mean((p - t) ** 2)))


def _mae(p: Array, t: Array) -> float:
    """Mean absolute difference over all channels and pixels."""
    return _mean(np.abs(p - t))


def _psnr(p: Array, t: Array, data_range: float) -> float:
    """Section 8: 20 log10(range/RMSE), infinite for equal images."""
    error = _rmse(p, t)
    return float("inf") if error == 0 else float(20 * np.log10(data_range / error))


def _angles(p: Array, t: Array) -> Array:
    """Section 8: per pixel angle between spectra in degrees, NaN where one of them is all zero."""
    norms = np.sqrt(np.sum(p * p, axis=0)) * np.sqrt(np.sum(t * t, axis=0))
    cosine = np.full(norms.shape, np.nan)
    np.divide(np.sum(p * t, axis=0), norms, out=cosine, where=norms > 0)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def _sam(p: Array, t: Array) -> float:
    """Section 8: mean angle; one all-zero spectrum makes it NaN for the whole image."""
    return _mean(_angles(p, t))


def _sam_without_zeros(p: Array, t: Array) -> tuple[float, float]:
    """Protocol `standard`: mean angle of the pixels whose two spectra are not all zero, and the number of the others."""
    zero = np.all(p == 0, axis=0) | np.all(t == 0, axis=0)
    return _mean(_angles(p, t)[~zero]), float(zero.sum())


def _ssim_map_standard(p: Array, t: Array) -> Array:
    """Protocol `standard`: 11x11 Gaussian, sigma 1.5, biased covariance, range 1, 5 pixels of border left out."""
    _, full = structural_similarity(
        p, t, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1, channel_axis=0, full=True
    )
    return full[:, 5:-5, 5:-5]


def _ssim_map_cuhk(p: Array, t: Array) -> Array:
    """Section 8, CUHK: each channel turned to gray, 7x7 uniform window, sample covariance, 3 pixels of border left out."""
    full = [structural_similarity(a * GRAY, b * GRAY, data_range=255, full=True)[1] for a, b in zip(p, t, strict=True)]
    return np.stack(full)[:, 3:-3, 3:-3]


def _ssim_map_padded(p: Array, t: Array) -> Array:
    """Section 8, SEN12MS-CR: 11x11 Gaussian, sigma 1.5, zero padding, biased variances, borders included."""
    window = np.exp(-((np.arange(11) - 5.0) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def blur(x: Array) -> Array:
        return correlate1d(correlate1d(x, window, axis=-1, mode="constant"), window, axis=-2, mode="constant")

    c1, c2 = 0.01**2, 0.03**2
    mp, mt = blur(p), blur(t)
    vp, vt, cov = blur(p * p) - mp * mp, blur(t * t) - mt * mt, blur(p * t) - mp * mt
    return (2 * mp * mt + c1) * (2 * cov + c2) / ((mp * mp + mt * mt + c1) * (vp + vt + c2))


# --------------------------------------------------------------------------------------------------------------------
# LPIPS


@functools.cache
def _weights(path: str) -> dict[str, Array]:
    """The tensors of a safetensors file in float64."""
    return {name: tensor.astype(np.float64) for name, tensor in load_file(path).items()}


def _convolve(x: Array, weight: Array, bias: Array, stride: int, padding: int) -> Array:
    """Cross-correlation of (C, H, W) with (O, C, k, k), zero padding."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(x, weight.shape[2:], axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("chwij,ocij->ohw", windows, weight, optimize=True) + bias[:, None, None]


def _pool(x: Array) -> Array:
    """Maximum of 3x3 windows, stride 2, no padding."""
    return sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2].max(axis=(-2, -1))


def _features(x: Array, tensors: dict[str, Array]) -> list[Array]:
    """AlexNet's five ReLU outputs of an image (3, H, W), each scaled to length 1 over its channels."""
    x = (x - np.reshape(SHIFT, (3, 1, 1))) / np.reshape(SCALE, (3, 1, 1))
    taps = []
    for index, stride, padding in CONVOLUTIONS:
        if index in POOLED:
            x = _pool(x)
        x = _convolve(x, tensors[f"features.{index}.weight"], tensors[f"features.{index}.bias"], stride, padding)
        x = np.maximum(x, 0)
        taps.append(x / (np.sqrt(np.sum(x**2, axis=0, keepdims=True)) + 1e-10))
    return taps


def lpips(prediction: Array, target: Array, weights: Path | str) -> float:
    """LPIPS v0.1 (AlexNet) of two images (3, H, W), as they are: nothing is scaled or clipped here."""
    tensors = _weights(str(weights))
    pairs = zip(*(_features(np.asarray(x, np.float64), tensors) for x in (prediction, target)), strict=True)
    return float(
        sum(np.mean(np.sum(tensors[f"lin{i}.weight"][0] * (a - b) ** 2, axis=0)) for i, (a, b) in enumerate(pairs))
    )


# --------------------------------------------------------------------------------------------------------------------
# Protocols


def standard(
    prediction: Array, target: Array, levels: int, rgb: Sequence[int] | None, weights: Path | str | None = None
) -> Scores:
    """Protocol `standard`; `rgb` are the channels of LPIPS, which is left out where they or the weights are None."""
    p, t = scale_standard(prediction, levels), scale_standard(target, levels)
    sam, zero_pixels = _sam_without_zeros(p, t)
    scores = {
        "psnr": _psnr(p, t, 1),
        "ssim": _mean(_ssim_map_standard(p, t)),
        "mae": _mae(p, t),
        "rmse": _rmse(p, t),
        "sam": sam,
        "zero_pixels": zero_pixels,
    }
    if weights is not None and rgb is not None:
        scores["lpips"] = lpips(2 * p[list(rgb)] - 1, 2 * t[list(rgb)] - 1, weights)
    return scores


def cuhk(prediction: Array, target: Array, weights: Path | str | None = None) -> Scores:
    """Section 8, CUHK: truncated to 8 bits, except for RMSE, which is that of the unclipped [0, 1] images."""
    p, t = scale_cuhk(prediction), scale_cuhk(target)
    scores = {
        "psnr": _psnr(p, t, 255),
        "ssim": _mean(_ssim_map_cuhk(p, t)),
        "rmse": _rmse(scale_sen12ms_cr(prediction), scale_sen12ms_cr(target)),
    }
    if weights is not None:
        pairs = zip(p, t, strict=True)
        scores["lpips"] = float(np.mean([lpips(np.stack([a] * 3), np.stack([b] * 3), weights) for a, b in pairs]))
    return scores


def _published(p: Array, t: Array) -> Scores:
    """Section 8: what SEN12MS-CR and Sen2_MTC_New compute on differently scaled images."""
    return {
        "psnr": _psnr(p, t, 1),
        "ssim": _mean(_ssim_map_padded(p, t)),
        "mae": _mae(p, t),
        "rmse": _rmse(p, t),
        "sam": _sam(p, t),
    }


def sen12ms_cr(prediction: Array, target: Array) -> Scores:
    """Section 8, SEN12MS-CR: unclipped [0, 1] images, no LPIPS."""
    return _published(scale_sen12ms_cr(prediction), scale_sen12ms_cr(target))


def sen2_mtc_new(prediction: Array, target: Array, weights: Path | str | None = None) -> Scores:
    """Section 8, Sen2_MTC_New: images stretched from min to max; LPIPS for three channels only."""
    p, t = scale_sen2_mtc_new(prediction), scale_sen2_mtc_new(target)
    scores = _published(p, t)
    if weights is not None and len(p) == 3:
        scores["lpips"] = lpips(2 * p - 1, 2 * t - 1, weights)
    return scores


# --------------------------------------------------------------------------------------------------------------------
# Selected pixels only


def masked_standard(prediction: Array, target: Array, mask: Array, levels: int) -> Scores:
    """Protocol `standard` over the pixels where the mask (H, W) is true; no LPIPS, NaN where nothing is selected."""
    p, t = scale_standard(prediction, levels), scale_standard(target, levels)
    ps, ts = p[:, mask], t[:, mask]
    sam, zero_pixels = _sam_without_zeros(ps, ts)
    return {
        "psnr": _psnr(ps, ts, 1),
        "ssim": _mean(_ssim_map_standard(p, t)[:, mask[5:-5, 5:-5]]),
        "mae": _mae(ps, ts),
        "rmse": _rmse(ps, ts),
        "sam": sam,
        "zero_pixels": zero_pixels,
    }


def masked_cuhk(prediction: Array, target: Array, mask: Array) -> Scores:
    """Section 8, CUHK, over the pixels where the mask (H, W) is true; no LPIPS, NaN where nothing is selected."""
    p, t = scale_cuhk(prediction), scale_cuhk(target)
    return {
        "psnr": _psnr(p[:, mask], t[:, mask], 255),
        "ssim": _mean(_ssim_map_cuhk(p, t)[:, mask[3:-3, 3:-3]]),
        "rmse": _rmse(scale_sen12ms_cr(prediction)[:, mask], scale_sen12ms_cr(target)[:, mask]),
    }


def _masked_published(p: Array, t: Array, mask: Array) -> Scores:
    """As `_published`, over the pixels where the mask is true; the SSIM map has no border to leave out."""
    ps, ts = p[:, mask], t[:, mask]
    return {
        "psnr": _psnr(ps, ts, 1),
        "ssim": _mean(_ssim_map_padded(p, t)[:, mask]),
        "mae": _mae(ps, ts),
        "rmse": _rmse(ps, ts),
        "sam": _sam(ps, ts),
    }


def masked_sen12ms_cr(prediction: Array, target: Array, mask: Array) -> Scores:
    """Section 8, SEN12MS-CR, over the pixels where the mask (H, W) is true; NaN where nothing is selected."""
    return _masked_published(scale_sen12ms_cr(prediction), scale_sen12ms_cr(target), mask)


def masked_sen2_mtc_new(prediction: Array, target: Array, mask: Array) -> Scores:
    """Section 8, Sen2_MTC_New, over the pixels where the mask is true; the stretch is still that of the whole image."""
    return _masked_published(scale_sen2_mtc_new(prediction), scale_sen2_mtc_new(target), mask)
