"""The forward process: s(t), sigma(t) and what follows from them (paper, section 3.2 and supplement A.1, A.2).

Shapes: ``t`` is a scalar or (B,); images are (B, L, C, H, W) or anything else whose first axis is the batch.
Everything works on the rescaled state x~(t) = x(t) / s(t) of the paper, written ``x`` here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from torch import Tensor

from emrdm.diffusion.shapes import per_sample
from emrdm.errors import ConfigError
from emrdm.strict import check


class Slope(NamedTuple):
    """dx/dt as a combination of x, D and mu: see :meth:`Process.slope`."""

    x: float
    denoised: float
    mu: float


class Process(ABC):
    """A choice of s(t) and sigma(t).

    Write ``s`` and ``sigma`` with torch operations, s(0) = 1, sigma(0) = 0 and sigma increasing. Everything else
    follows; override a derived method only where a closed form is faster or more accurate.
    """

    @abstractmethod
    def s(self, t: Tensor) -> Tensor:
        """Scale of the state at ``t`` (Eq. st_and_sigmat)."""

    @abstractmethod
    def sigma(self, t: Tensor) -> Tensor:
        """Noise level of the rescaled state at ``t`` (Eq. st_and_sigmat)."""

    def k(self, t: Tensor) -> Tensor:
        """Weight of the cloudy image at ``t``: (1 - s) / s."""
        s = self.s(t)
        return (1 - s) / s

    def t(self, sigma: Tensor) -> Tensor:
        """Time at which the noise level is ``sigma``: the inverse of :meth:`sigma`, by bisection."""
        target = sigma.to(torch.float64)
        high = torch.ones_like(target)
        for _ in range(256):
            if bool((self.sigma(high) >= target).all()):
                break
            high = torch.where(self.sigma(high) < target, high * 2, high)
        else:
            raise ConfigError(
                f"{type(self).__name__}.sigma never reaches {float(target.max()):g}: it must grow without bound"
            )
        low = torch.zeros_like(target)
        for _ in range(128):  # double precision is exhausted long before
            middle = (low + high) / 2
            below = self.sigma(middle) < target
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return torch.where(target > 0, high, 0).to(sigma.dtype)  # exactly 0 at the end of a schedule

    def s_dot(self, t: Tensor) -> Tensor:
        """Derivative of s."""
        return _derivative(self.s, t)

    def sigma_dot(self, t: Tensor) -> Tensor:
        """Derivative of sigma."""
        return _derivative(self.sigma, t)

    def k_dot(self, t: Tensor) -> Tensor:
        """Derivative of k, equal to -s'/s^2."""
        return -self.s_dot(t) / self.s(t) ** 2

    def f(self, t: Tensor) -> Tensor:
        """Drift of the SDE, f = s'/s (Eq. relation_st_sigmat_and_ft_gt)."""
        return self.s_dot(t) / self.s(t)

    def g(self, t: Tensor) -> Tensor:
        """Diffusion of the SDE, g = s sqrt(2 sigma' sigma) (Eq. relation_st_sigmat_and_ft_gt)."""
        return self.s(t) * torch.sqrt(2 * self.sigma_dot(t) * self.sigma(t))

    @final
    def mean(self, x0: Tensor, mu: Tensor, t: Tensor) -> Tensor:
        """Mean of the state at ``t``: x0 + k(t) mu (Eq. bftilx0_and_x0_relation)."""
        return x0 + per_sample(self.k(t), mu) * mu

    @final
    def perturb(self, x0: Tensor, mu: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """A draw of the perturbation kernel: x0 + k(t) mu + sigma(t) noise (Eq. bftilx_distribution)."""
        return self.mean(x0, mu, t) + per_sample(self.sigma(t), noise) * noise

    @final
    def slope(self, t: float) -> Slope:
        """Coefficients of the backward ODE at ``t`` (Eq. backward_denoiser_ode).

        The equation, k' mu - (sigma'/sigma) (D + k mu - x), is regrouped by image, so that large terms cancel between
        double precision scalars and not between float32 images: with a = sigma'/sigma,

            dx/dt = a x - a D + (k' - a k) mu.

        For the paper's s and sigma the last coefficient is zero and the slope is (x - D) / t.
        """
        time = torch.tensor(t, dtype=torch.float64)
        a, k_dot = float(self.sigma_dot(time) / self.sigma(time)), float(self.k_dot(time))
        mu = k_dot - a * float(self.k(time))
        return Slope(x=a, denoised=-a, mu=0.0 if abs(mu) <= 1e-12 * abs(k_dot) else mu)  # rounding is not a slope


@final
@dataclass(frozen=True)
class MeanReverting(Process):
    """The paper's choice: s(t) = 1 / (1 + alpha t), sigma(t) = t, hence k(t) = alpha t.

    With alpha = 0 it is s(t) = 1: no mean to revert to, the process of EDM (ablation configs A to C).
    """

    alpha: float = 3.0

    def __post_init__(self) -> None:
        check(self, "process")
        if not 0 <= self.alpha <= 1e6:
            raise ConfigError(f"process.alpha is {self.alpha:g}: expected 0 to 1e6")

    def s(self, t: Tensor) -> Tensor:  # noqa: D102
        return 1 / (1 + self.alpha * t)

    def sigma(self, t: Tensor) -> Tensor:  # noqa: D102
        return t

    def k(self, t: Tensor) -> Tensor:  # noqa: D102 - (1 - s) / s loses digits at small t, alpha t does not
        return self.alpha * t

    def t(self, sigma: Tensor) -> Tensor:  # noqa: D102
        return sigma

    def s_dot(self, t: Tensor) -> Tensor:  # noqa: D102
        return -self.alpha / (1 + self.alpha * t) ** 2

    def sigma_dot(self, t: Tensor) -> Tensor:  # noqa: D102
        return torch.ones_like(t)

    def k_dot(self, t: Tensor) -> Tensor:  # noqa: D102
        return torch.full_like(t, self.alpha)


def _derivative(function: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """Exact derivative by automatic differentiation, whatever gradient mode the caller is in."""
    with torch.inference_mode(False), torch.enable_grad():
        t = t.detach().clone().requires_grad_(True)
        value = function(t)
        if not value.requires_grad:  # a constant
            return torch.zeros_like(t)
        return torch.autograd.grad(value.sum(), t)[0]
