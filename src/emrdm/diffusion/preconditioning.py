"""The four factors around the network (paper, section 3.4, Eqs. c_in to c_noise, and supplement A.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor

from emrdm.errors import ConfigError
from emrdm.strict import check


class Factors(NamedTuple):
    """Factors for one noise level a sample; each (B,) or scalar like the sigma they were asked for."""

    c_in: Tensor
    c_skip: Tensor
    c_out: Tensor
    c_noise: Tensor

    @property
    def weight(self) -> Tensor:
        """Loss weight lambda = 1 / c_out^2."""
        return self.c_out**-2


@final
@dataclass(frozen=True)
class Preconditioning:
    """Statistics of the images, scaled to [-1, 1], that give network input and target unit variance.

    Attributes:
        sigma_data: standard deviation of the target.
        sigma_mu: standard deviation of a cloudy image.
        sigma_cov: covariance of target and cloudy image (not its root; it enters linearly).

    With sigma_mu = sigma_cov = 0 the factors are those of EDM.
    """

    sigma_data: float = 1.0
    sigma_mu: float = 1.0
    sigma_cov: float = 0.9

    def __post_init__(self) -> None:
        check(self, "preconditioning")
        if not 1e-6 <= self.sigma_data <= 1e6:
            raise ConfigError(f"preconditioning.sigma_data is {self.sigma_data:g}: expected 1e-6 to 1e6")
        if not 0 <= self.sigma_mu <= 1e6:
            raise ConfigError(f"preconditioning.sigma_mu is {self.sigma_mu:g}: expected 0 to 1e6")
        if not abs(self.sigma_cov) <= self.sigma_data * self.sigma_mu:
            raise ConfigError(
                f"preconditioning.sigma_cov is {self.sigma_cov}: a covariance cannot exceed "
                f"sigma_data * sigma_mu = {self.sigma_data * self.sigma_mu:g}"
            )

    def __call__(self, sigma: Tensor, k: Tensor, frames: int | Tensor = 1) -> Factors:
        """Factors at noise level ``sigma`` and mean weight ``k``.

        Args:
            sigma: (B,) or scalar, positive.
            k: the process's k at the same time, same shape.
            frames: L, or (B,) where samples have different numbers of frames.
        """
        var_data, var_mu, cov = self.sigma_data**2, self.sigma_mu**2, self.sigma_cov
        var_noise, k2 = sigma**2, k**2
        var_noise_mean = var_noise / frames
        shared = var_data + k2 * var_mu + 2 * k * cov
        denominator = shared + var_noise_mean
        # The paper's numerator, regrouped: its two large terms cancel here, between exact scalars.
        numerator = var_noise_mean * var_data + k2 * (var_mu * var_data - cov**2)
        return Factors(
            c_in=torch.rsqrt(shared + var_noise),
            c_skip=(var_data + k * cov) / denominator,
            c_out=torch.sqrt(numerator / denominator),
            c_noise=torch.log(sigma) / 4,
        )
