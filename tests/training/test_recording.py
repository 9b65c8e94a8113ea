"""Recorded steps: bookkeeping of gradients with a make-believe graph, and the real thing on a GPU."""

import pytest
import torch
from torch import nn

from emrdm import EMRDM, load_preset
from emrdm.training.recording import Recorder, _Recorded


class Replayable:
    """What a CUDA graph does: the same work again, on the same tensors."""

    def __init__(self, recorder, inputs):
        self.recorder = recorder
        self.inputs = tuple(None if x is None else x.clone() for x in inputs)
        self.parameters, self.factor = recorder._parameters, 1.0
        self.loss = torch.zeros(())
        self.gradients = [torch.zeros_like(p) for p in self.parameters]
        self.replays = 0

    def replay(self):
        self.replays += 1
        for recorded in self.recorder._recorded.values():  # all share memory
            for gradient in recorded.gradients:
                gradient.fill_(torch.nan)
        kept = [p.grad for p in self.parameters]
        self.recorder._forget()
        self.loss.copy_(self.factor * self.recorder._compute(*self.inputs).detach())
        for mine, parameter, before in zip(self.gradients, self.parameters, kept, strict=True):
            mine.copy_(parameter.grad)
            parameter.grad = before


@pytest.fixture
def make(monkeypatch):
    """A recorder over a small network, and the graphs it has made."""
    for name in ("set_rng_state", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: None)
    graphs = []

    def record(self, inputs):
        graphs.append(Replayable(self, inputs))
        return _Recorded(graphs[-1], graphs[-1].inputs, graphs[-1].loss, graphs[-1].gradients)

    monkeypatch.setattr(Recorder, "_record", record)
    monkeypatch.setattr(Recorder, "_compute_aside", lambda self, inputs: self._compute(*inputs).detach())
    network = nn.Linear(3, 2)

    def compute(x, extra=None):
        loss = network(x).square().mean()
        loss.backward()
        return loss

    return network, Recorder(compute, list(network.parameters())), compute, graphs


def expected(network, compute, batches):
    """Losses, and gradients added up, without a recorder."""
    network.zero_grad()
    losses = [compute(x).item() for x in batches]
    gradients = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    return losses, gradients


@pytest.mark.parametrize("turns", [1, 3])
def test_gradients_are_those_of_the_function_before_and_after_recording(make, turns):
    network, recorder, compute, graphs = make
    for _ in range(5):
        batches = [torch.randn(4, 3) for _ in range(turns)]
        losses, gradients = expected(network, compute, batches)
        assert [recorder(x, None).item() for x in batches] == losses
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            assert torch.allclose(parameter.grad, gradient, rtol=1e-6)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad.mul_(0.5)  # clipping works in place
        network.zero_grad()
    assert len(graphs) == 1
    assert graphs[0].replays == 1 + 5 * turns - 3  # the check, and all batches but the first three


def test_batches_of_several_shapes_may_meet_in_a_step(make):
    network, recorder, compute, graphs = make
    for order in ((4, 6), (6, 4), (4, 6, 6, 4), (6, 4, 4, 6, 4)):
        batches = [torch.randn(rows, 3) for rows in order]
        losses, gradients = expected(network, compute, batches)
        assert [recorder(x, None).item() for x in batches] == losses
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            assert torch.allclose(parameter.grad, gradient, rtol=1e-5)
        network.zero_grad()
    assert len(graphs) == 2


def test_every_shape_has_a_recording_and_only_so_many(make):
    _, recorder, _, graphs = make
    for rows in range(1, 8):
        for _ in range(4):
            recorder(torch.randn(rows, 3), None)
    assert len(graphs) == 4
    assert recorder.failed is None


def test_a_recording_that_is_wrong_is_not_used(make, monkeypatch, caplog):
    network, recorder, compute, graphs = make
    monkeypatch.setattr(Replayable, "replay", lambda self: self.loss.fill_(3.0))
    for _ in range(5):
        x = torch.randn(4, 3)
        losses, gradients = expected(network, compute, [x])
        assert recorder(x, None).item() == losses[0]
        assert all(torch.equal(p.grad, g) for p, g in zip(network.parameters(), gradients, strict=True))
        network.zero_grad()
    assert len(graphs) == 1
    assert caplog.text.count("does not repeat what was recorded") == 1


def test_a_device_that_cannot_record_goes_on_without(make, monkeypatch, caplog):
    _, recorder, _, graphs = make

    def refuse(self, inputs):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")

    monkeypatch.setattr(Recorder, "_record", refuse)
    for _ in range(6):
        recorder(torch.randn(4, 3), None)
    assert not graphs
    assert caplog.text.count("steps are not recorded as a CUDA graph") == 1


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("precision", "compiled"), [("fp32", False), ("bf16-mixed", False), ("bf16-mixed", True)])
def test_recorded_steps_are_the_steps(precision, compiled):
    """Losses and weights after eight steps with dropout, recorded or not: the same bits."""
    from emrdm.bench.training import _batch
    from emrdm.training.machine import Machine, numerics, start
    from emrdm.training.step import Stepper

    changes = {"train.precision": precision, "train.compile": compiled, "train.deterministic": True}
    changes |= {"train.batch_size": 4, "train.gpus": 1, "train.accumulate": 2}
    recipe = load_preset("tiny").replace(changes)
    fabric = start(Machine(device="cuda"), recipe.train)
    found = []
    for recorded in (False, True):
        with numerics(recipe.train):
            stepper = Stepper(EMRDM.fresh(recipe.model, seed=1), recipe, fabric)
            if not recorded:
                stepper.recorder = None
            batch = _batch(stepper.model, 64).to(fabric.device)
            losses = [stepper.step_once(batch, step) for step in range(8)]
            found.append((losses, [p.detach().clone() for p in stepper.parameters]))
            if recorded:
                assert stepper.recorder.failed is None
                assert len(stepper.recorder._recorded) == 1
    (first, weights), (second, others) = found
    assert first == second
    assert all(torch.equal(a, b) for a, b in zip(weights, others, strict=True))
