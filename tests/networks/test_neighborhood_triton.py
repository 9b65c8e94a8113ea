"""The Triton kernels of neighbourhood attention: against the definition, in the interpreter and on a GPU."""

import pytest
import torch
from tests.interpreter import interpret, needs_triton
from tests.networks.test_neighborhood import inputs

from emrdm.networks.neighborhood import choose, neighborhood_attention, tiles
from emrdm.networks.neighborhood.windows import starts


@needs_triton
def test_interpreted_kernels_agree_forward_and_backward():
    printed = interpret(
        """
import torch
from tests.networks.test_neighborhood import inputs
from emrdm.networks.neighborhood import BACKENDS, choose
assert choose("cpu") == "triton" and choose("cpu", torch.float64) == "tiled"
for size, kernel, channels in [((7, 7), 7, 16), ((9, 17), 7, 24), ((10, 9), 9, 8), ((8, 11), 1, 16), ((17, 6), 3, 64)]:
    tensors = inputs(*size, batch=1, channels=channels)
    v = torch.randn(1, *size, 2, 3, channels)[..., 1, :].transpose(2, 3).contiguous().transpose(2, 3)  # any strides
    upstream = torch.randn(v.shape)
    results = []
    for name in ("reference", "triton"):
        leaves = [x.clone().requires_grad_() for x in (*tensors[:2], v)]
        out = BACKENDS[name](*leaves, kernel, 0.7)
        results.append((out.detach(), *torch.autograd.grad(out, leaves, upstream)))
    forward, *backward = ((a - b).abs().max().item() for a, b in zip(*results, strict=True))
    assert forward < 1e-5 and max(backward) < 1e-4, (size, kernel, channels, forward, backward)
    quiet = BACKENDS["triton"](*tensors[:2], v, kernel, 0.7)
    assert torch.equal(quiet, results[1][0])
print("agree")
"""
    )
    assert printed == "agree\n"


@needs_triton
def test_a_bound_on_the_logits_changes_nothing():
    printed = interpret(
        """
import torch
from tests.networks.test_neighborhood import inputs
from emrdm.networks.neighborhood import triton_backend
q, k, v = inputs(9, 12, batch=1)
free, _ = triton_backend.launch_forward(q, k, v, 7, 1.0, keep=False)
bound, _ = triton_backend.launch_forward(q, k, v, 7, 1.0, keep=False, bound=torch.full((2,), 10.0))
assert (free - bound).abs().max() < 1e-6
print("agree")
"""
    )
    assert printed == "agree\n"


def test_the_queries_that_see_a_tile_of_keys_are_counted_right():
    for length in (7, 8, 13, 20, 37, 64):
        for kernel in (1, 3, 7):
            first = starts(length, kernel)
            for tile in (4, 8, 16):
                most = 0
                for start in range(0, length, tile):
                    keys = range(start, min(start + tile, length))
                    seeing = [i for i in range(length) if any(first[i] <= key < first[i] + kernel for key in keys)]
                    most = max(most, seeing[-1] - seeing[0] + 1)
                assert tiles.queries_seeing(length, tile, kernel) == most
                assert tiles.keys_seen(length, tile, kernel) <= length


def test_where_there_are_no_kernels_the_tiled_back_end_is_chosen(monkeypatch):
    monkeypatch.delenv("EMRDM_ATTENTION", raising=False)
    assert choose("cpu") == "tiled"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [(7, 7), (37, 45), (64, 64), (7, 96), (17, 9)])
@pytest.mark.parametrize(
    ("dtype", "precision", "bound"),
    [
        (torch.float32, "highest", 1e-6),
        (torch.float32, "high", 3e-3),  # tf32 cuts the digits that float16 rounds: twice its error and more
        (torch.bfloat16, "highest", 6e-3),
        (torch.float16, "highest", 8e-4),
    ],
)
def test_kernels_agree_on_the_gpu(size, dtype, precision, bound, monkeypatch):
    """Relative error against the definition in double precision, forward and of each gradient."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        tensors = [x.cuda().to(dtype) for x in inputs(*size, channels=64)]
        upstream = torch.randn(tensors[2].shape).cuda().to(dtype)
        results = []
        for name, kind in (("reference", torch.float64), ("triton", dtype)):
            leaves = [x.to(kind).requires_grad_() for x in tensors]
            out = neighborhood_attention(*leaves, backend=name)
            results.append((out.detach(), *torch.autograd.grad(out, leaves, upstream.to(kind))))
        errors = [((a - b).norm() / a.norm()).item() for a, b in zip(*results, strict=True)]
        assert max(errors) < bound, errors
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_kernels_give_the_same_bits_every_time_and_in_every_batch():
    tensors = [x.cuda().bfloat16() for x in inputs(37, 45, batch=3, channels=64)]
    upstream = torch.randn(tensors[2].shape).cuda().bfloat16()

    def both(select):
        leaves = [x[select].clone().requires_grad_() for x in tensors]
        out = neighborhood_attention(*leaves, backend="triton")
        return out.detach(), *torch.autograd.grad(out, leaves, upstream[select])

    first = both(slice(None))
    assert all(torch.equal(a, b) for a, b in zip(first, both(slice(None)), strict=True))
    assert all(torch.equal(a[1:2], b) for a, b in zip(first, both(slice(1, 2)), strict=True))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_compiled_attention_is_the_same():
    tensors = [x.cuda().bfloat16().requires_grad_() for x in inputs(24, 40, channels=64)]

    def attend(q, k, v):
        return neighborhood_attention(q, k, v, backend="triton")

    plain = attend(*tensors)
    compiled = torch.compile(attend, fullgraph=True)(*tensors)
    assert torch.equal(plain, compiled)
    upstream = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, tensors, upstream)
    found = torch.autograd.grad(compiled, tensors, upstream)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
