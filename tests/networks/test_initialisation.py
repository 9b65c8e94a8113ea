"""Initial values and dropout as published (sections 2.3 to 2.8 and 3.2 of its description)."""

import math

import pytest
import torch

from emrdm.networks import NetworkConfig, build
from emrdm.networks.layers import FeedForward, MappingBlock, SelfAttention, pixel_positions

WIDE = NetworkConfig(
    patch=1, widths=(128, 256), depths=(1, 1), hidden=(256, 512), neighborhood_levels=1, temporal_heads=16,
    mapping_width=4096, mapping_hidden=64,
)  # fmt: skip


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(0)
    return build(WIDE, 7, 3).state_dict()


def test_gains_scales_and_shares(state):
    for name, tensor in state.items():
        if name.endswith("self_attn.scale"):
            assert (tensor == 10).all(), name
        elif name.endswith("fac"):
            assert (tensor == 0.5).all(), name
        elif name.endswith(".scale"):
            assert (tensor == 1).all(), name


def test_random_frequencies_are_standard_normal(state):
    weight = state["time_emb.weight"]
    assert weight.std().item() == pytest.approx(1, abs=0.06)
    assert weight.mean().item() == pytest.approx(0, abs=0.1)


def test_queries_have_the_standard_deviation_of_the_page(state):
    queries = state["temporal_encoder.attention_heads.Q"]
    assert queries.std().item() == pytest.approx(math.sqrt(2 / 48), rel=0.12)


def test_matrices_are_uniform_within_the_inverse_root_of_their_inputs(state):
    for name in (
        "patch_in.proj",
        "down_levels.0.0.self_attn.qkv_proj",
        "mid_level.0.ff.up_proj",
        "merges.0.proj",
        "splits.0.proj",
    ):
        weight = state[f"{name}.weight"]
        bound = 1 / math.sqrt(weight.shape[1])
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def silent_share(module, *arguments):
    """Share of the last projection's inputs that dropout sets to zero, and what is left grows by."""
    seen = []
    projection = module.down_proj if hasattr(module, "down_proj") else module.out_proj
    projection.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    module.train()(*arguments)
    return (seen[0] == 0).float().mean().item()


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        (FeedForward(64, 256, 16, dropout=0.5), ()),
        (SelfAttention(64, 16, 16, kernel=None, dropout=0.5), (pixel_positions(8, 8),)),
        (MappingBlock(64, 256, 0.5), None),
    ],
)
def test_dropout_acts_just_before_the_last_projection(module, extra):
    x = torch.randn(4, 64) if extra is None else torch.randn(4, 8, 8, 64)
    arguments = (x,) if extra is None else (x, *extra, torch.randn(4, 16))
    assert silent_share(module, *arguments) == pytest.approx(0.5, abs=0.08)


def test_dropout_rates_are_the_configurations():
    config = NetworkConfig(
        widths=(128, 256),
        depths=(1, 1),
        hidden=(64, 64),
        dropout=(0.25, 0.5),
        mapping_dropout=0.125,
        neighborhood_levels=1,
    )
    network = build(config, 3, 3)
    rates = {name: module.p for name, module in network.named_modules() if isinstance(module, torch.nn.Dropout)}
    assert {rate for name, rate in rates.items() if name.startswith(("down_levels", "up_levels"))} == {0.25}
    assert {rate for name, rate in rates.items() if name.startswith("mid_level")} == {0.5}
    assert {rate for name, rate in rates.items() if name.startswith("mapping")} == {0.125}
