"""Neighbourhood attention in columns, for restoring on CPUs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks.test_neighborhood import inputs

from emrdm.networks.neighborhood import columns, neighborhood_attention


@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(7, 30),
    width=st.integers(7, 30),
    kernel=st.sampled_from([1, 3, 5, 7]),
    batch=st.integers(1, 3),
)
def test_it_is_the_definition_for_any_size_and_kernel(height, width, kernel, batch):
    q, k, v = inputs(height, width, batch=batch, channels=8, dtype=torch.float64)
    expected = neighborhood_attention(q, k, v, kernel=kernel, scale=0.5, backend="reference")
    assert torch.allclose(columns.attend(q, k, v, kernel, 0.5), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", [9, 11, 13])
def test_windows_may_be_wider_than_tiles_and_as_wide_as_the_image(kernel):
    for extra in range(5):
        q, k, v = inputs(kernel + extra, kernel, dtype=torch.float64)
        expected = neighborhood_attention(q, k, v, kernel=kernel, backend="reference")
        assert torch.allclose(columns.attend(q, k, v, kernel, 1.0), expected, atol=1e-12)


def test_an_image_comes_out_alike_in_every_batch(monkeypatch):
    q, k, v = inputs(18, 13, batch=3)
    together = columns.attend(q, k, v, 7, 1.0)
    monkeypatch.setattr(columns, "BUDGET", 1)
    assert torch.equal(columns.attend(q, k, v, 7, 1.0), together)


def test_what_one_image_holds_does_not_spread_to_another():
    q, k, v = inputs(12, 12)
    expected = columns.attend(q, k, v, 7, 1.0)[0]
    v[1] = torch.nan
    assert torch.equal(columns.attend(q, k, v, 7, 1.0)[0], expected)


def test_views_of_one_tensor_do():
    qkv = torch.stack(inputs(16, 20), dim=3)
    apart = [x.contiguous() for x in qkv.unbind(3)]
    assert torch.equal(columns.attend(*qkv.unbind(3), 7, 1.0), columns.attend(*apart, 7, 1.0))


def test_half_the_numbers_do():
    q, k, v = inputs(16, 20, channels=32)
    expected = neighborhood_attention(q, k, v, backend="reference")
    found = columns.attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), 7, 1.0)
    assert found.dtype == torch.bfloat16
    assert (found - expected).square().mean().sqrt() < 0.01
