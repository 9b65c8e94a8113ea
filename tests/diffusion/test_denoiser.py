"""The denoiser: the paper's relation of D and F, for images, sequences, and missing frames."""

import torch

from emrdm.diffusion import Denoiser, MeanReverting, Preconditioning


def network(x, c_noise):
    """Depends on every frame, position and noise level."""
    return torch.tanh(x).sum(1) * (1 + c_noise.reshape(-1, *(1,) * (x.ndim - 2)))


PARTS = {"process": MeanReverting(3.0), "preconditioning": Preconditioning()}


def test_it_is_the_papers_relation():
    x, t = torch.randn(2, 3, 4, 5, 5), torch.tensor([0.2, 7.0])
    found = Denoiser(network, **PARTS)(x, t)
    c_in, c_skip, c_out, c_noise = (f.reshape(2, 1, 1, 1, 1) for f in Preconditioning()(t, 3 * t, 3))
    expected = (c_skip * x).mean(1) + c_out[:, 0] * network(c_in * x, c_noise.flatten())
    assert torch.allclose(found, expected, atol=1e-6)


def test_one_image_is_a_sequence_of_one():
    x, t = torch.randn(2, 1, 4, 5, 5), torch.tensor([0.2, 7.0])
    factors = Preconditioning()(t, 3 * t)
    c_in, c_skip, c_out, _ = (f.reshape(2, 1, 1, 1) for f in factors)
    expected = c_skip * x[:, 0] + c_out * network(c_in.unsqueeze(1) * x, factors.c_noise)
    assert torch.allclose(Denoiser(network, **PARTS)(x, t), expected, atol=1e-6)


def test_with_f_zero_it_is_the_mean_times_c_skip():
    x, t = torch.randn(2, 3, 4, 5, 5), torch.tensor(0.5)
    silent = Denoiser(lambda x, c: torch.zeros_like(x[:, 0]), **PARTS)
    assert torch.allclose(silent(x, t), Preconditioning()(t, 3 * t, 3).c_skip * x.mean(1))


def test_missing_frames_count_as_left_out():
    x, t = torch.randn(2, 4, 3, 5, 5), torch.tensor([0.3, 2.0])
    present = torch.tensor([[True, False, True, True], [False, True, False, True]])
    x[~present] = float("nan")

    def masked(x, c_noise):
        return network(x.masked_fill(~present[:, :, None, None, None], 0), c_noise)

    found = Denoiser(masked, **PARTS, present=present)(x, t)
    for b in range(2):
        kept = x[b : b + 1, present[b]]
        assert torch.allclose(found[b : b + 1], Denoiser(network, **PARTS)(kept, t[b : b + 1]), atol=1e-6)


def test_samples_with_different_noise_do_not_mix():
    x, t = torch.randn(3, 2, 4, 5, 5), torch.tensor([0.01, 1.0, 50.0])
    together = Denoiser(network, **PARTS)(x, t)
    for b in range(3):
        assert torch.equal(together[b : b + 1], Denoiser(network, **PARTS)(x[b : b + 1], t[b : b + 1]))


def test_half_precision_images_keep_float32_factors():
    x = torch.randn(1, 1, 3, 4, 4).bfloat16()
    seen = []
    result = Denoiser(lambda x, c: (seen.append(c), x[:, 0])[1], **PARTS)(x, torch.tensor(100.0))
    assert seen[0].dtype == torch.float32
    assert result.dtype == torch.bfloat16
