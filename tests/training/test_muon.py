"""Muon against singular values, against AdamW where it is AdamW, and through a run that was stopped."""

import math

import pytest
import torch
from tests.training.little import landscapes, recipe

from emrdm import networks
from emrdm.presets import load_preset
from emrdm.presets.recipe import OptimizerConfig
from emrdm.training import Machine, train
from emrdm.training.checkpoint import Checkpoints
from emrdm.training.muon import Muon, orthogonalized
from emrdm.training.optimizer import build_optimizer
from emrdm.training.stopping import Stopping

CPU = Machine(device="cpu")


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 40)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    given = [torch.randn(shape) * scale for scale in (1e-4, 1.0, 1e3)]
    for matrix, found in zip(given, orthogonalized(given), strict=True):
        u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
        inside = u.T @ found @ vt.T
        assert (s / s[0]).min() < 0.6  # they were not near one
        assert ((inside.diagonal() > 0.6) & (inside.diagonal() < 1.3)).all()
        assert (inside - inside.diagonal().diag()).abs().max() < 1e-3


def test_shapes_may_be_mixed_and_keep_their_places():
    torch.manual_seed(0)
    given = [torch.randn(shape) for shape in ((8, 4), (4, 8), (8, 4), (3, 3))]
    together = orthogonalized(given)
    for matrix, found in zip(given, together, strict=True):
        torch.testing.assert_close(found, orthogonalized([matrix])[0], rtol=1e-4, atol=1e-5)


def stepped(kind, **settings):
    torch.manual_seed(0)
    model = load_preset("tiny").model
    net = networks.build(model.network, model.in_channels, model.out_channels)
    optimizer = build_optimizer(net, OptimizerConfig(kind=kind, lr=1e-2, weight_decay=0.5, **settings))
    before = {}
    for name, parameter in net.named_parameters():
        parameter.data.normal_()
        parameter.grad = torch.randn_like(parameter)
        before[name] = parameter.detach().clone()
    optimizer.step()
    return net, optimizer, before


@pytest.mark.parametrize("groups", ["one", "hdit"])
def test_only_the_matrices_of_blocks_step_otherwise_than_with_adamw(groups):
    (ours, optimizer, before), (theirs, _, _) = stepped("muon", groups=groups), stepped("adamw", groups=groups)
    others = dict(theirs.named_parameters())
    matrices = ("qkv_proj.weight", "out_proj.weight", "up_proj.weight", "down_proj.weight")
    decay = {p: g["lr"] * g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None
        if name.endswith(matrices) and "mapping" not in name:
            step = parameter.detach() - before[name] * (1 - decay[parameter])
            # all directions equally far, and as far as AdamW's steps go
            values = torch.linalg.svdvals(step) / (1e-2 * 0.2 * math.sqrt(max(step.shape)))
            assert values.max() < 1.3, name
            assert (values > 0.5).float().mean() > 0.9, name  # a random matrix may have a value near zero
            assert 0.05 * 1e-2 < step.square().mean().sqrt() < 0.5 * 1e-2
            assert (step * parameter.grad).sum() < 0
        else:
            assert torch.equal(parameter, others[name]), name


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, monkeypatch):
    pictures = landscapes(tmp_path / "clear")
    plan = recipe(pictures, {"optimizer.kind": "muon"})
    train(plan, tmp_path / "whole", machine=CPU)
    with monkeypatch.context() as patch:
        asked = []
        patch.setattr(Stopping, "time_is_up", lambda *_: asked.append(1) or len(asked) >= 3)
        assert train(plan, tmp_path / "parts", machine=CPU).reason == "time"
    assert train(plan, tmp_path / "parts", machine=CPU).reason == "finished"
    folders = (tmp_path / name / "checkpoints" for name in ("whole", "parts"))
    (whole, _), (parts, _) = (Checkpoints(folder, keep=2).newest() for folder in folders)
    assert whole.keys() == parts.keys()
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())


@pytest.mark.gpu
def test_recorded_steps_are_the_steps_that_were_recorded():
    torch.manual_seed(0)
    start = [torch.randn(shape, device="cuda") for shape in ((64, 32), (32, 64), (32, 32))]
    gradients = [[torch.randn_like(x) for x in start] for _ in range(8)]
    ends = []
    for records in (True, False):
        parameters = [torch.nn.Parameter(x.clone()) for x in start]
        optimizer = Muon([{"params": parameters, "orthogonal": True}], lr=0.1, weight_decay=0.1, fused=True)
        if not records:
            optimizer.failed = "not wanted"
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        for step, some in enumerate(gradients):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + step)
            for parameter, gradient in zip(parameters, some, strict=True):
                parameter.grad.copy_(gradient)
            optimizer.step()
        assert len(optimizer._recorded) == records
        ends.append(parameters)
    for ours, theirs in zip(*ends, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
