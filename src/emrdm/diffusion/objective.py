"""The training objective (paper, Algorithm 1 and Eq. all_training_loss)."""

from __future__ import annotations

import torch
from torch import Tensor

from emrdm.diffusion.denoiser import Denoiser
from emrdm.diffusion.shapes import mean_over_frames


def training_losses(
    denoiser: Denoiser, x0: Tensor, mu: Tensor, sigma: Tensor, noise: Tensor, *, valid: Tensor | None = None
) -> Tensor:
    """Loss of each sample: weight(sigma) times the mean squared error of D (Algorithm 1, lines 4 to 9).

    Args:
        denoiser: D; its condition is bound to these samples.
        x0: clear image (B, C, H, W) in [-1, 1].
        mu: cloudy frames (B, L, C, H, W) in [-1, 1].
        sigma: (B,), see :func:`~emrdm.diffusion.noise_levels.log_normal_sigma`.
        noise: standard normal (B, L, C, H, W), independent over frames.
        valid: (B, H, W) bool, pixels whose clear value is known; None means all. ``x0`` may hold anything elsewhere.

    Returns:
        (B,). The mean over the batch is what the paper minimises; the paper's squared norm is a mean over pixels here,
        as in the published implementation. With ``valid`` it is the mean over the known pixels of each sample, 0 where
        there are none.
    """
    if valid is not None:
        # Attention carries every pixel of the noisy image to the others, so unknown ones need a value the network could
        # meet there when it samples: an image's, not a hole's. The frames are the nearest to it that is known, and tell
        # nothing the network does not see anyway.
        x0 = torch.where(valid.unsqueeze(1), x0, mean_over_frames(mu, denoiser.present))
    t = denoiser.process.t(sigma.to(mu.device))
    x = denoiser.process.perturb(x0.unsqueeze(1), mu, t, noise)
    error = (denoiser(x, t) - x0).float()
    weight = denoiser.factors(t, mu.shape[1]).weight
    if valid is None:
        return weight * error.square().flatten(1).mean(1)
    error = error.masked_fill(~valid.unsqueeze(1), 0)
    known = valid.flatten(1).sum(1)
    # The mean over all pixels, brought to the known ones: a factor of exactly 1 where all are, on every device.
    share = valid[0].numel() / known.clamp(min=1)
    return weight * (error.square().flatten(1).mean(1) * share)
