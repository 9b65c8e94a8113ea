"""Scores on a GPU; apart from the others because a GPU host may lack what they are compared with."""

import pytest
import torch

from emrdm.metrics import PROTOCOLS, Data


@pytest.mark.gpu
@pytest.mark.parametrize("name", PROTOCOLS)
def test_scores_on_the_gpu_are_those_on_the_cpu(name):
    small = torch.rand(2, 3, 8, 8)
    target = torch.nn.functional.interpolate(small, (96, 96), mode="bicubic").clamp(0, 1).mul(255).round() / 255 * 2 - 1
    prediction = (target * 0.9 + 0.05 * torch.randn(target.shape)).clamp(-1, 1)
    where = torch.rand(2, 96, 96) < 0.5
    data = Data(255, (0, 1, 2))
    here = PROTOCOLS[name](prediction, target, data=data, regions={"some": where})
    there = PROTOCOLS[name](prediction.cuda(), target.cuda(), data=data, regions={"some": where.cuda()})
    for metric, value in here.items():
        tolerance = 2e-4 if metric.startswith("lpips") else 1e-9  # AlexNet in single precision, other kernels
        torch.testing.assert_close(there[metric].cpu().double(), value.double(), rtol=tolerance, atol=1e-12)
