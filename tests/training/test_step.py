"""A step alone: what it computes, what it leaves alone, and when it waits for the device."""

import copy
import dataclasses

import pytest
import torch
from tests.training.little import recipe
from torch.utils._python_dispatch import TorchDispatchMode

from emrdm import EMRDM
from emrdm.training.machine import Machine, start
from emrdm.training.objective import Objective, draw_noise
from emrdm.training.samples import TrainingBatch
from emrdm.training.step import Stepper

CPU = torch.device("cpu")
PLAIN = {"model.network.mapping_dropout": 0.0, "train.precision": "fp32"}


def stepper(changes=None, device="cpu"):
    """With nothing but a model and a recipe: no folder, no data."""
    preset = recipe("nowhere", {**PLAIN, **(changes or {})})
    return Stepper(EMRDM.fresh(preset.model, seed=1), preset, start(Machine(device=device), preset.train))


def batch(count=4, first=0, side=16):
    images = torch.rand(count, 1, 3, side, side, generator=torch.Generator().manual_seed(first)) * 2 - 1
    keys = tuple(range(first, first + count))
    return TrainingBatch(tuple(map(str, keys)), keys, images, images[:, 0].flip(-1), None, None)


def part(whole, *places):
    """Some samples of a batch."""
    images = {name: x[list(places)] for name, x in whole.images.items()}
    chosen = {name: tuple(getattr(whole, name)[i] for i in places) for name in ("names", "keys")}
    return dataclasses.replace(whole, **images, **chosen)


def state(of):
    """All tensors that a step may change."""
    moments = [value for parameter in of.parameters for value in of.optimizer.state[parameter].values()]
    return [x.detach().clone() for x in (*of.parameters, *of.average.averages, *moments)]


@pytest.mark.parametrize("clip", [None, 1e-3])
def test_steps_are_those_of_the_paper(clip):
    """Against the same written out: mean of the losses, AdamW, then the average."""
    ours = stepper({"optimizer.clip": clip, "optimizer.warmup": 4, "train.batch_size": 4})
    model = EMRDM.fresh(ours.recipe.model, seed=1)
    model.network.train()
    parameters = list(model.network.parameters())
    averages = copy.deepcopy(parameters)
    config = ours.recipe.optimizer
    optimizer = torch.optim.AdamW(
        parameters, lr=1.0, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay
    )
    for step in range(3):
        given = batch(first=step)
        sigma, noise = draw_noise(model, given, CPU)
        expected = model.losses(given.clear, given.cloudy, sigma=sigma, noise=noise).mean()
        expected.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip or float("inf"))
        optimizer.param_groups[0]["lr"] = config.lr * (step + 1) / 4
        optimizer.step()
        optimizer.zero_grad()
        decay = min(config.ema_decay, (2 + step) / (11 + step))
        averages = [decay * a.detach() + (1 - decay) * p.detach() for a, p in zip(averages, parameters, strict=True)]
        assert ours.step_once(given, step) == pytest.approx((expected.item(), norm.item()), rel=1e-5)
    for mine, theirs in zip(ours.parameters, parameters, strict=True):
        torch.testing.assert_close(mine, theirs)
    for mine, theirs in zip(ours.average.averages, averages, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert all(parameter.grad is None for parameter in ours.parameters)


def test_batches_and_parts_of_a_step_do_what_one_batch_does():
    whole, ways = batch(), []
    for accumulate, size, turns in (
        (1, 4, [[whole]]),
        (1, 4, [[part(whole, 0, 1, 2), part(whole, 3)]]),
        (2, 2, [[part(whole, 0, 1)], [part(whole, 2), part(whole, 3)]]),
    ):
        ours = stepper({"train.accumulate": accumulate, "train.batch_size": size})
        ours.begin(0)
        for number, parts in enumerate(turns):
            ours.turn(number, parts)
        loss, size, mine = ours.agree(norm := ours.norm(), 0.25)
        assert mine == 0.25
        assert ours.finish(norm, loss, size)
        ways.append((loss, size))
    assert ways[1] == pytest.approx(ways[0], rel=1e-5)
    assert ways[2] == pytest.approx(ways[0], rel=1e-5)


def test_dropout_belongs_to_the_step():
    """Whatever was drawn before. In a fresh network all branches are silent, so a few steps come first."""

    def late(step):
        ours = stepper({"model.network.mapping_dropout": 0.5, "optimizer.lr": 0.01})
        for before in range(5):
            ours.step_once(batch(), before)
        return ours.step_once(batch(), step)

    assert late(7) == late(7)
    assert late(7) != late(8)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_step_that_is_not_finite_changes_nothing(bad, monkeypatch):
    ours = stepper()
    ours.step_once(batch())
    before, updates = state(ours), ours.average.updates
    with monkeypatch.context() as patch:
        patch.setattr(
            Objective, "forward", lambda self, clear, *_: self.network.patch_in.proj.weight.sum() * bad + clear
        )
        ours.step_once(batch(), 1)
    assert all(torch.equal(x, y) for x, y in zip(state(ours), before, strict=True))
    assert ours.average.updates == updates
    assert all(parameter.grad is None for parameter in ours.parameters)
    ours.step_once(batch(), 1)
    assert not all(torch.equal(x, y) for x, y in zip(state(ours), before, strict=True))


class _Looks(TorchDispatchMode):
    """Refuses operations whose result depends on numbers: a GPU would have to be waited for."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "equal", "masked_select"), name
        return function(*arguments, **(options or {}))


def test_nothing_looks_at_a_number_before_all_of_a_step_is_under_way():
    ours = stepper({"optimizer.clip": 1.0})
    hole = torch.ones(4, 16, 16, dtype=torch.bool)
    hole[:, :4] = False
    given = dataclasses.replace(batch(), valid=hole)
    ours.step_once(given)
    with pytest.raises(AssertionError, match="_local_scalar_dense"), _Looks():
        ours.loss.item()
    ours.begin(1)
    with _Looks():
        ours.turn(0, [given])
        ours.norm()


@pytest.mark.gpu
def test_a_step_waits_once_for_the_gpu():
    ours = stepper({"optimizer.clip": 1.0}, device="cuda")
    given = batch(side=32).to(ours.device)
    for step in range(2):
        ours.step_once(given, step)
    try:
        torch.cuda.set_sync_debug_mode("error")
        ours.begin(2)
        ours.turn(0, [given])
        norm = ours.norm()
        torch.cuda.set_sync_debug_mode("default")
        loss, size, _ = ours.agree(norm, 1.0)
        torch.cuda.set_sync_debug_mode("error")
        assert ours.finish(norm, loss, size)
    finally:
        torch.cuda.set_sync_debug_mode("default")
