"""Scores: plain functions on tensors, named protocols, and what adds them up over many images."""

from emrdm.metrics.accumulate import Mean, Scores
from emrdm.metrics.perception import lpips
from emrdm.metrics.pixels import mae, psnr, rmse
from emrdm.metrics.protocols import METRICS, PROTOCOLS, Data, Metric, Protocol, find_protocols
from emrdm.metrics.spectrum import sam, zero_spectra
from emrdm.metrics.structure import gaussian_taps, ssim, uniform_taps

__all__ = [
    "METRICS",
    "PROTOCOLS",
    "Data",
    "Mean",
    "Metric",
    "Protocol",
    "Scores",
    "find_protocols",
    "gaussian_taps",
    "lpips",
    "mae",
    "psnr",
    "rmse",
    "sam",
    "ssim",
    "uniform_taps",
    "zero_spectra",
]
