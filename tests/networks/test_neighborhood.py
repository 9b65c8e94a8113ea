"""Neighbourhood attention: the window rule, and all back-ends against the definition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.errors import ConfigError, InputError
from emrdm.networks.neighborhood import BACKENDS, OVERRIDE, choose, neighborhood_attention
from emrdm.networks.neighborhood.windows import starts

FAST = ["tiled"]  # what runs on CPUs; test_neighborhood_triton.py has the kernels
SIZES = [(7, 7), (8, 8), (13, 13), (64, 64), (7, 96), (96, 7), (8, 13), (17, 9)]


def inputs(height, width, *, batch=2, heads=2, channels=16, dtype=torch.float32, seed=0):
    """Queries and keys as the network makes them: cosine similarity times ten."""
    q, k, v = torch.randn(
        3, batch, height, width, heads, channels, generator=torch.Generator().manual_seed(seed), dtype=dtype
    )
    unit = lambda x: x * 10**0.5 / x.norm(dim=-1, keepdim=True)  # noqa: E731
    return unit(q), unit(k), v


def by_loops(q, k, v, kernel):
    """The definition, one query at a time."""
    out = torch.empty_like(v)
    height, width = q.shape[1:3]
    for i in range(height):
        for j in range(width):
            r = min(max(i - kernel // 2, 0), height - kernel)
            c = min(max(j - kernel // 2, 0), width - kernel)
            keys, values = (x[:, r : r + kernel, c : c + kernel].flatten(1, 2) for x in (k, v))
            weights = torch.einsum("bnd,btnd->bnt", q[:, i, j], keys).softmax(-1)
            out[:, i, j] = torch.einsum("bnt,btnd->bnd", weights, values)
    return out


def test_the_reference_is_the_definition():
    q, k, v = inputs(9, 12, dtype=torch.float64)
    for kernel in (1, 3, 7):
        found = neighborhood_attention(q, k, v, kernel=kernel, backend="reference")
        assert torch.allclose(found, by_loops(q, k, v, kernel), atol=1e-12)


def test_windows_slide_inward_and_always_have_the_same_size():
    for length in range(7, 301):
        first = starts(length, 7)
        assert first.min() == 0
        assert first.max() == length - 7
        queries = torch.arange(length)
        assert ((first <= queries) & (queries < first + 7)).all()
        inner = first[3 : length - 3]
        assert torch.equal(inner, queries[3 : length - 3] - 3)


def disagreement(backend, size):
    """Largest difference from the reference: forward, and of the three gradients."""
    tensors = inputs(*size)
    upstream = torch.randn(tensors[2].shape, generator=torch.Generator().manual_seed(1))
    results = {}
    for name in ("reference", backend):
        leaves = [x.clone().requires_grad_() for x in tensors]
        out = neighborhood_attention(*leaves, backend=name)
        results[name] = out.detach(), *torch.autograd.grad(out, leaves, upstream)
    forward, *gradients = (
        (a - b).abs().max().item() for a, b in zip(results["reference"], results[backend], strict=True)
    )
    return forward, max(gradients)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("size", SIZES)
def test_backends_agree_forward_and_backward(backend, size):
    forward, backward = disagreement(backend, size)
    assert forward <= 1e-5
    assert backward <= 1e-4


@pytest.mark.parametrize("backend", FAST)
@settings(max_examples=30, deadline=None)
@given(height=st.integers(5, 40), width=st.integers(5, 40), kernel=st.sampled_from([1, 3, 5]), batch=st.integers(1, 3))
def test_backends_agree_for_any_size_and_kernel(backend, height, width, kernel, batch):
    q, k, v = inputs(height, width, batch=batch, heads=1, channels=8, dtype=torch.float64)
    expected = neighborhood_attention(q, k, v, kernel=kernel, scale=0.5, backend="reference")
    assert torch.allclose(
        neighborhood_attention(q, k, v, kernel=kernel, scale=0.5, backend=backend), expected, atol=1e-12
    )


@pytest.mark.parametrize("backend", FAST)
def test_a_strip_at_a_time_is_the_same_as_all_at_once(backend, monkeypatch):
    q, k, v = inputs(40, 30)
    whole = neighborhood_attention(q, k, v, backend=backend)
    monkeypatch.setattr("emrdm.networks.neighborhood.tiled.CPU_BUDGET", 1)
    assert torch.equal(neighborhood_attention(q, k, v, backend=backend), whole)


@pytest.mark.parametrize("backend", FAST)
def test_backends_work_in_inference_mode_and_then_in_training(backend):
    q, k, v = inputs(19, 23)
    with torch.inference_mode():
        quiet = neighborhood_attention(q, k, v, backend=backend)
    leaf = v.clone().requires_grad_()
    loud = neighborhood_attention(q, k, leaf, backend=backend)
    loud.sum().backward()
    assert torch.equal(quiet, loud)


def test_the_choice_is_automatic_and_can_be_overridden(monkeypatch):
    monkeypatch.delenv(OVERRIDE, raising=False)
    assert choose() == "tiled"
    monkeypatch.setenv(OVERRIDE, "reference")
    assert choose() == "reference"
    monkeypatch.setenv(OVERRIDE, "cuda")
    with pytest.raises(ConfigError, match="EMRDM_ATTENTION is 'cuda': expected one of reference, tiled, triton, flex"):
        choose()


def test_bad_input_is_refused():
    q, k, v = inputs(7, 7)
    with pytest.raises(InputError, match=r"6x7 tokens: expected at least 7x7"):
        neighborhood_attention(q[:, :6], k[:, :6], v[:, :6])
    with pytest.raises(InputError, match="expected three equal"):
        neighborhood_attention(q, k[:1], v)
    with pytest.raises(InputError, match="kernel is 4: expected a positive odd number"):
        neighborhood_attention(q, k, v, kernel=4)
    with pytest.raises(ConfigError, match="back-end is 'fast'"):
        neighborhood_attention(q, k, v, backend="fast")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "reference"])
def test_backends_agree_on_the_gpu(backend):
    tensors = [x.cuda() for x in inputs(64, 64)]
    expected = neighborhood_attention(*[x.double() for x in tensors], backend="reference")
    assert (neighborhood_attention(*tensors, backend=backend) - expected).abs().max() < 1e-4
