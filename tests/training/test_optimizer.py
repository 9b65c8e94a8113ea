"""Parameter groups against the tags of the published networks; learning rates against their formulas."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from emrdm import networks
from emrdm.presets import load_preset
from emrdm.presets.recipe import OptimizerConfig
from emrdm.training.optimizer import build_optimizer, parameter_groups, rate, set_rate

HDIT = OptimizerConfig(groups="hdit", lr=3e-4, weight_decay=0.05)
PUBLISHED = Path(__file__).parents[1] / "published"


def network(preset):
    model = load_preset(preset).model
    return networks.build_empty(model.network, model.in_channels, model.out_channels)


def settings_by_name(network, groups):
    """(learning rate, weight decay) of every parameter, which must be in exactly one group."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = [(names[id(p)], (group["lr"], group["weight_decay"])) for group in groups for p in group["params"]]
    assert sorted(name for name, _ in found) == sorted(names.values())
    return dict(found)


@pytest.mark.parametrize(
    ("preset", "published"),
    [("cuhk-cr1", "cuhk"), ("sen12ms-cr", "sentinel"), ("sen2-mtc-new", "sen2_mtc_new")],
)
def test_groups_are_what_the_tags_of_the_published_networks_say(preset, published):
    entries = json.loads((PUBLISHED / f"state_{published}.json").read_text())["entries"]
    tags = {entry["name"]: entry["tags"] for entry in entries if entry["kind"] == "param"}
    assert {tag for of_one in tags.values() for tag in of_one} == {"wd", "mapping"}
    net = network(preset)
    groups = parameter_groups(net, HDIT)
    assert len(groups) == 4
    found = settings_by_name(net, groups)
    assert found.keys() == tags.keys()
    for name, (lr, decay) in found.items():
        assert decay == (0.05 if "wd" in tags[name] else 0), name
        assert lr == pytest.approx(1e-4 if "mapping" in tags[name] else 3e-4), name


def test_the_published_recipe_is_one_group_of_all_parameters():
    net = network("sen2-mtc-new")
    config = load_preset("sen2-mtc-new").optimizer
    (group,) = parameter_groups(net, config)
    assert set(settings_by_name(net, [group]).values()) == {(1e-4, 1e-2)}


@pytest.mark.parametrize("groups", ["one", "hdit"])
def test_a_step_moves_every_parameter_as_its_group_says(groups):
    """AdamW's first step is lr * sign(gradient), after a decay of lr * weight_decay."""
    torch.manual_seed(0)
    model = load_preset("tiny-temporal").model
    net = networks.build(model.network, model.in_channels, model.out_channels)
    config = OptimizerConfig(groups=groups, lr=1e-3, weight_decay=0.5, eps=0.0)
    optimizer = build_optimizer(net, config)
    before = {}
    for name, parameter in net.named_parameters():
        parameter.data.normal_()
        parameter.grad = torch.randn_like(parameter)
        before[name] = parameter.detach().clone()
    expected = settings_by_name(net, optimizer.param_groups)
    optimizer.step()
    for name, parameter in net.named_parameters():
        lr, decay = expected[name]
        wanted = before[name] * (1 - lr * decay) - lr * parameter.grad.sign()
        torch.testing.assert_close(parameter.detach(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("groups", ["one", "hdit"])
def test_the_optimizer_has_the_recipes_values_and_keeps_each_groups_rate(groups):
    config = OptimizerConfig(groups=groups, lr=3e-4, betas=(0.8, 0.95), eps=1e-6)
    optimizer = build_optimizer(network("tiny"), config)
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"]) == ((0.8, 0.95), 1e-6)
        assert group["initial_lr"] == group["lr"]
    assert max(group["initial_lr"] for group in optimizer.param_groups) == 3e-4


def test_fused_is_handed_on():
    model = load_preset("tiny").model
    net = networks.build(model.network, model.in_channels, model.out_channels)
    assert build_optimizer(net, HDIT).defaults["fused"] is None
    assert build_optimizer(net, HDIT, fused=True).defaults["fused"] is True


def test_a_rate_is_a_share_of_each_groups_own_and_does_not_add_up():
    optimizer = build_optimizer(network("tiny"), HDIT)
    full = [group["lr"] for group in optimizer.param_groups]
    assert len(set(full)) == 2
    for factor in (0.5, 0.0, 0.25, 1.0):
        set_rate(optimizer, factor)
        assert [group["lr"] for group in optimizer.param_groups] == [lr * factor for lr in full]


def test_the_full_rate_survives_a_checkpoint():
    first, second = (build_optimizer(network("tiny"), HDIT) for _ in range(2))
    set_rate(first, 0.1)
    second.load_state_dict(first.state_dict())
    set_rate(second, 1.0)
    assert [group["lr"] for group in second.param_groups] == [group["initial_lr"] for group in first.param_groups]


def test_warm_up_rises_in_a_line_and_is_full_at_its_last_step():
    config = OptimizerConfig(warmup=4)
    assert [rate(config, step, 100) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    assert rate(config, 99, 100) == 1
    assert rate(OptimizerConfig(), 0, 100) == 1
    assert rate(OptimizerConfig(warmup=1), 0, 100) == 1


def test_cosine_falls_from_full_after_the_warm_up_to_zero_at_the_end():
    config = OptimizerConfig(warmup=10, schedule="cosine")
    assert rate(config, 9, 110) == rate(config, 10, 110) == 1
    assert rate(config, 60, 110) == pytest.approx(0.5)
    assert rate(config, 35, 110) == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert 0 < rate(config, 109, 110) < 1e-3
    assert rate(config, 110, 110) == rate(config, 500, 110) == 0


@given(
    schedule=st.sampled_from(["constant", "cosine"]),
    warmup=st.integers(0, 50),
    step=st.integers(0, 200),
    steps=st.integers(1, 100),
)
def test_rates_stay_between_zero_and_one_and_rise_only_in_the_warm_up(schedule, warmup, step, steps):
    config = OptimizerConfig(schedule=schedule, warmup=warmup)
    now, after = rate(config, step, steps), rate(config, step + 1, steps)
    assert 0 <= now <= 1
    assert after > now if step + 1 < warmup else (after <= now or step + 1 == warmup)
