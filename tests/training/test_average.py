"""The moving average of the weights, against its formula."""

import pytest
import torch

from emrdm.training import MovingAverage


def test_it_follows_the_published_formula():
    torch.manual_seed(0)
    parameters = [torch.randn(4, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]
    average = MovingAverage(parameters, decay=0.9)
    expected = [parameter.clone() for parameter in parameters]
    for n in range(1, 200):
        for parameter in parameters:
            parameter.add_(torch.randn_like(parameter))
        average.update(parameters)
        d = min(0.9, (1 + n) / (10 + n))
        expected = [e + (1 - d) * (p - e) for e, p in zip(expected, parameters, strict=True)]
    assert average.updates == 199
    for ours, theirs in zip(average.averages, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


def test_the_first_update_forgets_most_of_the_beginning():
    average = MovingAverage([torch.zeros(1)], decay=0.9999)
    average.update([torch.ones(1)])
    assert average.averages[0].item() == pytest.approx(9 / 11)


def test_it_is_a_copy_and_needs_no_gradient():
    parameter = torch.nn.Parameter(torch.ones(2))
    average = MovingAverage([parameter], decay=0.5)
    average.update([parameter])
    with torch.no_grad():
        parameter.zero_()
    assert average.averages[0].tolist() == [1, 1]
    assert not average.averages[0].requires_grad
