"""A second, plain numpy implementation of the networks, the preconditioning, the loss and the sampler.

It was written from the description of the published implementation (its sections are cited as "section 2.6" and so
on) and from Algorithms 1 and 2 of the paper, independently of the package's source, so that the tests can compare the
package with something that does not share its mistakes.  All arithmetic is float64 and clarity comes before speed:
use it with small widths and small images.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
State = Mapping[str, Any]

EPS = 1e-6  # section 2.4 (RMS norms) and section 2.5 (cosine similarity)
RANGE_MARGIN = 1e-6  # section 4.4: t_0 may round above S_tmax = 100, so the range test has a relative margin

_erf = np.vectorize(math.erf, otypes=[np.float64])


# --------------------------------------------------------------------------------------------------------------------
# Elementary layers


def _tensor(state: State, name: str) -> Array:
    """The named tensor in float64."""
    return np.asarray(state[name], dtype=np.float64)


def _linear(state: State, name: str, x: Array) -> Array:
    """Matrix product along the last axis, no bias; `name.weight` is (out, in)."""
    return x @ _tensor(state, f"{name}.weight").T


def _rms(x: Array, gain: Array) -> Array:
    """Section 2.4: x * g / sqrt(mean_c(x^2) + 1e-6)."""
    return x * gain / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPS)


def _rms_norm(state: State, name: str, x: Array) -> Array:
    """Section 2.4: RMS norm with a learned gain, `name.scale`."""
    return _rms(x, _tensor(state, f"{name}.scale"))


def _ada_rms_norm(state: State, name: str, x: Array, u: Array) -> Array:
    """Section 2.4: RMS norm whose gain is 1 + Lin(u), one gain per sample; x is (B, ..., width), u (B, d_c)."""
    gain = 1.0 + _linear(state, f"{name}.linear", u)
    batch, width = gain.shape
    return _rms(x, gain.reshape(batch, *[1] * (x.ndim - 2), width))


def _gelu(x: Array) -> Array:
    """Section 2.7: the exact GELU, x * Phi(x)."""
    return 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))


def _geglu(x: Array) -> Array:
    """Section 2.7: first half * gelu(second half)."""
    hidden = x.shape[-1] // 2
    return x[..., :hidden] * _gelu(x[..., hidden:])


def _softmax(x: Array, axis: int) -> Array:
    """Softmax along one axis."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _space_to_depth(x: Array, p: int) -> Array:
    """Section 2.2.1: (B, H, W, C) to (B, H/p, W/p, p*p*C), channel index (row * p + col) * C + c."""
    batch, height, width, channels = x.shape
    if height % p or width % p:
        raise ValueError(f"a grid of {height}x{width} cannot be cut into {p}x{p} blocks")
    out = np.empty((batch, height // p, width // p, p * p * channels))
    for row in range(p):
        for col in range(p):
            first = (row * p + col) * channels
            out[..., first : first + channels] = x[:, row::p, col::p, :]
    return out


def _depth_to_space(x: Array, p: int) -> Array:
    """Section 2.2.6: the inverse of `_space_to_depth`."""
    batch, height, width, depth = x.shape
    channels = depth // (p * p)
    out = np.empty((batch, height * p, width * p, channels))
    for row in range(p):
        for col in range(p):
            first = (row * p + col) * channels
            out[:, row::p, col::p, :] = x[..., first : first + channels]
    return out


# --------------------------------------------------------------------------------------------------------------------
# Section 2.3: time embedding and mapping network


def _conditioning(state: State, c_noise: Array) -> Array:
    """The conditioning vectors u (B, d_c) of the noise levels c_noise (B,)."""
    weight = _tensor(state, "time_emb.weight")[:, 0]
    phase = 2.0 * math.pi * np.asarray(c_noise, dtype=np.float64)[:, None] * weight[None, :]
    x = np.concatenate([np.cos(phase), np.sin(phase)], axis=-1)
    x = _linear(state, "time_in_proj", x)
    x = _rms_norm(state, "mapping.in_norm", x)
    block = 0
    while f"mapping.blocks.{block}.norm.scale" in state:
        name = f"mapping.blocks.{block}"
        hidden = _geglu(_linear(state, f"{name}.up_proj", _rms_norm(state, f"{name}.norm", x)))
        x = x + _linear(state, f"{name}.down_proj", hidden)
        block += 1
    return _rms_norm(state, "mapping.out_norm", x)


# --------------------------------------------------------------------------------------------------------------------
# Section 2.6: axial RoPE


def positions(height: int, width: int) -> Array:
    """Pixel centres (h, w, 2) of a token grid, (row, column); the longer side spans [-1, 1]."""
    longer = max(height, width)
    r_y, r_x = height / longer, width / longer
    pos = np.empty((height, width, 2))
    for i in range(height):
        for j in range(width):
            pos[i, j, 0] = -r_y + (2 * i + 1) * r_y / height
            pos[i, j, 1] = -r_x + (2 * j + 1) * r_x / width
    return pos


def _coarser_positions(pos: Array) -> Array:
    """Mean over each 2x2 block of positions."""
    return (pos[0::2, 0::2] + pos[0::2, 1::2] + pos[1::2, 0::2] + pos[1::2, 1::2]) / 4.0


def rope_frequencies(heads: int, head_channels: int = 64) -> Array:
    """The table (heads, m), m = head_channels / 8: f[h, j] = pi * 10^((j * heads + h) / (heads * m))."""
    m = head_channels // 8
    table = np.empty((heads, m))
    for h in range(heads):
        for j in range(m):
            table[h, j] = math.pi * 10.0 ** ((j * heads + h) / (heads * m))
    return table


def _rotate(x: Array, pos: Array, head_channels: int) -> Array:
    """Rotates q or k, (B, h, w, heads, head_channels): first quarter a, second quarter b, the rest left alone."""
    freqs = rope_frequencies(x.shape[3], head_channels)
    angle_y = pos[:, :, 0, None, None] * freqs  # (h, w, heads, m)
    angle_x = pos[:, :, 1, None, None] * freqs
    theta = np.concatenate([angle_y, angle_x], axis=-1)  # (h, w, heads, 2m)
    quarter = head_channels // 4
    a, b, rest = x[..., :quarter], x[..., quarter : 2 * quarter], x[..., 2 * quarter :]
    rotated_a = a * np.cos(theta) - b * np.sin(theta)
    rotated_b = b * np.cos(theta) + a * np.sin(theta)
    return np.concatenate([rotated_a, rotated_b, rest], axis=-1)


# --------------------------------------------------------------------------------------------------------------------
# Section 2.5: attention


def neighborhood_start(i: int, length: int, kernel: int = 7) -> int:
    """The first of the `kernel` keys that query i sees along an axis of `length` tokens: clamp(i - 3, 0, len - 7)."""
    if length < kernel:
        raise ValueError(f"a neighborhood of {kernel} needs at least {kernel} tokens along each axis, not {length}")
    return min(max(i - kernel // 2, 0), length - kernel)


def _neighborhood_attention(q: Array, k: Array, v: Array, kernel: int) -> Array:
    """Each query of (B, h, w, heads, d) sees the kernel x kernel keys of its window; no padding."""
    batch, height, width, heads, channels = q.shape
    out = np.empty_like(v)
    for i in range(height):
        top = neighborhood_start(i, height, kernel)
        for j in range(width):
            left = neighborhood_start(j, width, kernel)
            keys = k[:, top : top + kernel, left : left + kernel].reshape(batch, kernel**2, heads, channels)
            values = v[:, top : top + kernel, left : left + kernel].reshape(batch, kernel**2, heads, channels)
            logits = np.sum(q[:, i, j, None] * keys, axis=-1)  # (B, keys, heads)
            weights = _softmax(logits, axis=1)
            out[:, i, j] = np.sum(weights[..., None] * values, axis=1)
    return out


def _global_attention(q: Array, k: Array, v: Array) -> Array:
    """Each query of (B, h, w, heads, d) sees all h * w keys."""
    batch, height, width, heads, channels = q.shape
    out = np.empty_like(v)
    for b in range(batch):
        for head in range(heads):
            queries = q[b, :, :, head].reshape(height * width, channels)
            keys = k[b, :, :, head].reshape(height * width, channels)
            values = v[b, :, :, head].reshape(height * width, channels)
            weights = _softmax(queries @ keys.T, axis=1)  # softmax scale 1, no 1/sqrt(d)
            out[b, :, :, head] = (weights @ values).reshape(height, width, channels)
    return out


def _attention_block(
    state: State, name: str, x: Array, pos: Array, u: Array, kernel: int | None, head_channels: int
) -> Array:
    """x + out_proj(attn(AdaRMSNorm(x, u))) on tokens (B, h, w, width); kernel None means global."""
    batch, height, width, channels = x.shape
    scale = _tensor(state, f"{name}.scale")
    heads = scale.shape[0]
    if heads * head_channels != channels:
        raise ValueError(f"{name}: {heads} heads of {head_channels} channels do not make {channels}")
    qkv = _linear(state, f"{name}.qkv_proj", _ada_rms_norm(state, f"{name}.norm", x, u))
    # (q | k | v), each head-major
    q, k, v = (
        qkv[..., part * channels : (part + 1) * channels].reshape(batch, height, width, heads, head_channels)
        for part in range(3)
    )
    # cosine similarity: sqrt(s_h) on each side
    root = np.sqrt(scale)[:, None]
    q = q * root / np.sqrt(np.sum(q**2, axis=-1, keepdims=True) + EPS)
    k = k * root / np.sqrt(np.sum(k**2, axis=-1, keepdims=True) + EPS)
    q = _rotate(q, pos, head_channels)
    k = _rotate(k, pos, head_channels)
    attended = _global_attention(q, k, v) if kernel is None else _neighborhood_attention(q, k, v, kernel)
    return x + _linear(state, f"{name}.out_proj", attended.reshape(batch, height, width, channels))


# --------------------------------------------------------------------------------------------------------------------
# Section 2.7: feed-forward block, and a level of blocks


def _feed_forward_block(state: State, name: str, x: Array, u: Array) -> Array:
    """x + down(GEGLU(up(AdaRMSNorm(x, u))))."""
    hidden = _geglu(_linear(state, f"{name}.up_proj", _ada_rms_norm(state, f"{name}.norm", x, u)))
    return x + _linear(state, f"{name}.down_proj", hidden)


def _level(
    state: State, name: str, depth: int, x: Array, pos: Array, u: Array, kernel: int | None, head_channels: int
) -> Array:
    """The `depth` blocks of a level, each attention then feed-forward."""
    for block in range(depth):
        x = _attention_block(state, f"{name}.{block}.self_attn", x, pos, u, kernel, head_channels)
        x = _feed_forward_block(state, f"{name}.{block}.ff", x, u)
    return x


# --------------------------------------------------------------------------------------------------------------------
# Section 2.2: the flow


def _encode(
    state: State,
    images: Array,
    u: Array,
    patch: int,
    depths: Sequence[int],
    kernels: Sequence[int | None],
    head_channels: int,
) -> tuple[Array, list[Array], list[Array]]:
    """Section 2.2, steps 1-5: images (B, C, H, W) to the bottleneck tokens, the skips and the positions per level."""
    x = np.moveaxis(np.asarray(images, dtype=np.float64), 1, -1)
    x = _linear(state, "patch_in.proj", _space_to_depth(x, patch))
    pos = positions(x.shape[1], x.shape[2])
    skips, skip_positions = [], []
    for i in range(len(depths) - 1):
        x = _level(state, f"down_levels.{i}", depths[i], x, pos, u, kernels[i], head_channels)
        skips.append(x)
        skip_positions.append(pos)
        x = _linear(state, f"merges.{i}.proj", _space_to_depth(x, 2))
        pos = _coarser_positions(pos)
    x = _level(state, "mid_level", depths[-1], x, pos, u, kernels[-1], head_channels)
    return x, skips, skip_positions


def _decode(
    state: State,
    x: Array,
    skips: Sequence[Array],
    skip_positions: Sequence[Array],
    u: Array,
    patch: int,
    depths: Sequence[int],
    kernels: Sequence[int | None],
    head_channels: int,
) -> Array:
    """Section 2.2, steps 6-7: bottleneck tokens (B, h, w, width) to images (B, C_out, H, W)."""
    for i in range(len(depths) - 2, -1, -1):
        up = _depth_to_space(_linear(state, f"splits.{i}.proj", x), 2)
        fac = _tensor(state, f"splits.{i}.fac")[0]
        x = skips[i] + fac * (up - skips[i])
        x = _level(state, f"up_levels.{i}", depths[i], x, skip_positions[i], u, kernels[i], head_channels)
    x = _rms_norm(state, "out_norm", x)
    x = _depth_to_space(_linear(state, "patch_out.proj", x), patch)
    return np.moveaxis(x, -1, 1)


def _kernels(levels: int, kernel: int, neighborhood_levels: int) -> list[int | None]:
    """Section 2.1: the first levels are neighborhood levels, the others global (None)."""
    return [kernel if i < neighborhood_levels else None for i in range(levels)]


def mono_network(
    state: State,
    x: Array,
    c_noise: Array,
    *,
    patch: int,
    depths: Sequence[int],
    kernel: int = 7,
    neighborhood_levels: int = 2,
    head_channels: int = 64,
) -> Array:
    """Section 2: the mono-temporal network, x (B, C_in, H, W) and c_noise (B,) to (B, C_out, H, W)."""
    kernels = _kernels(len(depths), kernel, neighborhood_levels)
    u = _conditioning(state, c_noise)
    tokens, skips, skip_positions = _encode(state, x, u, patch, depths, kernels, head_channels)
    return _decode(state, tokens, skips, skip_positions, u, patch, depths, kernels, head_channels)


# --------------------------------------------------------------------------------------------------------------------
# Section 3: the multi-temporal network


def _temporal_encoder(state: State, x: Array, u: Array, temporal_heads: int) -> tuple[Array, Array]:
    """Section 3.2: X (B, L, h, w, C) to one token grid (B, h, w, C) and the masks (G, B, L, h, w)."""
    name = "temporal_encoder.attention_heads"
    query = _tensor(state, f"{name}.Q")
    heads, key_channels = query.shape
    if heads != temporal_heads:
        raise ValueError(f"{temporal_heads} temporal heads asked for, {heads} in the state")
    batch, frames, height, width, channels = x.shape
    values = _ada_rms_norm(state, f"{name}.norm", x, u)
    keys = _linear(state, f"{name}.fc1_k", values) + _tensor(state, f"{name}.fc1_k.bias")
    masks = np.empty((heads, batch, frames, height, width))
    out = np.empty((batch, height, width, channels))
    group = channels // heads
    for g in range(heads):
        logits = keys[..., g * key_channels : (g + 1) * key_channels] @ query[g] / math.sqrt(key_channels)
        masks[g] = _softmax(logits, axis=1)  # over the frames
        part = slice(g * group, (g + 1) * group)
        out[..., part] = np.sum(masks[g][..., None] * values[..., part], axis=1)
    out = _linear(state, f"{name}.out_proj", out)  # no residual around the attention
    return _feed_forward_block(state, "temporal_encoder.ff", out, u), masks


def _bilinear_matrix(size_in: int, size_out: int) -> Array:
    """Linear interpolation along one axis, align_corners=False, as a matrix (size_out, size_in)."""
    matrix = np.zeros((size_out, size_in))
    for o in range(size_out):
        source = max((o + 0.5) * size_in / size_out - 0.5, 0.0)
        low = min(math.floor(source), size_in - 1)
        high = min(low + 1, size_in - 1)
        fraction = source - low
        matrix[o, low] += 1.0 - fraction
        matrix[o, high] += fraction
    return matrix


def upsample_bilinear(x: Array, height: int, width: int) -> Array:
    """Bilinear upsampling of the last two axes to (height, width), align_corners=False."""
    rows = _bilinear_matrix(x.shape[-2], height)
    columns = _bilinear_matrix(x.shape[-1], width)
    return rows @ x @ columns.T


def _fuse_skip(skip: Array, masks: Array) -> Array:
    """Section 3.3: skip (B, L, H_i, W_i, w_i) weighted over the frames, channel group g with mask g."""
    _, _, height, width, channels = skip.shape
    heads = masks.shape[0]
    if channels % heads:
        raise ValueError(f"{channels} channels cannot be cut into {heads} groups")
    weights = upsample_bilinear(masks, height, width)
    group = channels // heads
    out = np.empty_like(skip[:, 0])
    for g in range(heads):
        part = slice(g * group, (g + 1) * group)
        out[..., part] = np.sum(weights[g][..., None] * skip[..., part], axis=1)
    return out


def multi_network(
    state: State,
    x: Array,
    c_noise: Array,
    *,
    patch: int,
    depths: Sequence[int],
    temporal_heads: int,
    kernel: int = 7,
    neighborhood_levels: int = 2,
    head_channels: int = 64,
) -> tuple[Array, Array]:
    """Section 3: x (B, L, C_in, H, W) and c_noise (B,) to the image (B, C_out, H, W) and the masks (G, B, L, h, w)."""
    kernels = _kernels(len(depths), kernel, neighborhood_levels)
    x = np.asarray(x, dtype=np.float64)
    batch, frames = x.shape[:2]
    u = _conditioning(state, c_noise)
    # Sections 3.1 and 3.5: frames flattened as b * L + l, so that flat frame i gets u[i div L].
    flat = x.reshape(batch * frames, *x.shape[2:])
    flat_u = np.stack([u[i // frames] for i in range(batch * frames)])
    tokens, skips, skip_positions = _encode(state, flat, flat_u, patch, depths, kernels, head_channels)
    tokens, masks = _temporal_encoder(state, tokens.reshape(batch, frames, *tokens.shape[1:]), u, temporal_heads)
    fused = [_fuse_skip(skip.reshape(batch, frames, *skip.shape[1:]), masks) for skip in skips]
    return _decode(state, tokens, fused, skip_positions, u, patch, depths, kernels, head_channels), masks


# --------------------------------------------------------------------------------------------------------------------
# Section 4: diffusion


def factors(sigma: Any, k: Any, frames: int, sigma_data: float, sigma_mu: float, sigma_cov: float) -> tuple:
    """Section 4.1: (c_skip, c_out, c_in, c_noise); sigma and k are numbers or arrays of one shape."""
    sigma, k = np.asarray(sigma, dtype=np.float64), np.asarray(k, dtype=np.float64)
    den = sigma_data**2 + k**2 * sigma_mu**2 + sigma**2 / frames + 2 * k * sigma_cov
    c_skip = (sigma_data**2 + k * sigma_cov) / den
    c_out = np.sqrt(((sigma**2 / frames + k**2 * sigma_mu**2) * sigma_data**2 - k**2 * sigma_cov**2) / den)
    c_in = 1.0 / np.sqrt(sigma_data**2 + k**2 * sigma_mu**2 + sigma**2 + 2 * k * sigma_cov)  # sigma^2, not / L
    c_noise = np.log(sigma) / 4.0
    return c_skip, c_out, c_in, c_noise


def loss(
    denoise: Callable[[Array, Array], Array],
    x0: Array,
    mu: Array,
    sigma: Array,
    noise: Array,
    *,
    alpha: float,
    sigma_data: float = 1.0,
    sigma_mu: float = 1.0,
    sigma_cov: float = 0.9,
) -> Array:
    """Section 4.2: the losses (B,); x0 (B, C, H, W), mu and noise (B, L, C, H, W), sigma (B,)."""
    x0, mu, sigma, noise = (np.asarray(a, dtype=np.float64) for a in (x0, mu, sigma, noise))
    k = alpha * sigma
    per_sample = (-1, 1, 1, 1, 1)
    x = x0[:, None] + k.reshape(per_sample) * mu + sigma.reshape(per_sample) * noise
    _, c_out, _, _ = factors(sigma, k, mu.shape[1], sigma_data, sigma_mu, sigma_cov)
    error = np.asarray(denoise(x, sigma), dtype=np.float64) - x0
    return np.mean(error**2, axis=(1, 2, 3)) / c_out**2


def schedule(steps: int, sigma_min: float = 0.001, sigma_max: float = 100.0, rho: float = 7.0) -> list[float]:
    """Section 4.4: t_0 = sigma_max .. t_{N-1} = sigma_min, then t_N = 0 (a single step starts at sigma_max)."""
    high, low = sigma_max ** (1.0 / rho), sigma_min ** (1.0 / rho)
    times = []
    for i in range(steps):
        fraction = i / (steps - 1) if steps > 1 else 0.0
        times.append((high + fraction * (low - high)) ** rho)
    return [*times, 0.0]


def sample(
    denoise: Callable[[Array, float], Array],
    mu: Array,
    *,
    alpha: float,
    times: Sequence[float],
    churn: float = 0.0,
    s_noise: float = 1.0,
    t_min: float = 0.0,
    t_max: float = np.inf,
    noise: Callable[[int], Array],
) -> Array:
    """Section 4.4 and Algorithm 2, for s = 1 / (1 + alpha t) and sigma = t; mu (B, L, C, H, W) to (B, C, H, W).

    noise(0) is the initial standard normal draw and noise(i + 1) that of step i, asked for only when gamma > 0.
    """
    mu = np.asarray(mu, dtype=np.float64)
    steps = len(times) - 1
    # Lines 2-4: x_0^l ~ N(alpha t_0 mu^l, t_0^2 I), no x(0) term.
    x = alpha * times[0] * mu + times[0] * np.asarray(noise(0), dtype=np.float64)
    for i in range(steps):
        t = float(times[i])
        # Line 6: gamma_i, not capped; the range is compared with a margin.
        in_range = t_min * (1.0 - RANGE_MARGIN) <= t <= t_max * (1.0 + RANGE_MARGIN)
        gamma = churn / steps if in_range else 0.0
        # Line 7
        t_hat = t + gamma * t
        # Lines 8-11: more noise and more mean.
        if gamma > 0.0:
            eps = s_noise * np.asarray(noise(i + 1), dtype=np.float64)
            x = x + alpha * (t_hat - t) * mu + math.sqrt(t_hat**2 - t**2) * eps
        # Lines 12-15: the Euler step, with the same D for every frame.
        denoised = np.asarray(denoise(x, t_hat), dtype=np.float64)
        slope = (x - denoised[:, None]) / t_hat
        x = x + (times[i + 1] - t_hat) * slope
    # Line 17
    return np.mean(x, axis=1)
