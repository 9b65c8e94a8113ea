"""The loop: it learns, goes on where it was, and does the same in one process or several."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.little import landscapes, recipe

from emrdm import EMRDM, load_preset
from emrdm.data import open_dataset
from emrdm.errors import ConfigError, InputError
from emrdm.metrics import psnr
from emrdm.noise import fold
from emrdm.training import Machine, train
from emrdm.training.checkpoint import Checkpoints
from emrdm.training.log import read_log

ROOT = Path(__file__).parents[2]
CPU = Machine(device="cpu")


def newest(folder):
    return Checkpoints(folder / "checkpoints", keep=9).newest()


def assert_same(a, b):
    """Weights, average, optimiser: bit for bit."""
    (first, _), (second, _) = newest(a), newest(b)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def losses(folder):
    return [
        (row["step"], row["loss"], row["norm"], row["lr"])
        for row in read_log(folder / "log.jsonl")
        if row["kind"] == "step"
    ]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return landscapes(tmp_path_factory.mktemp("clear"))


@pytest.fixture(scope="module")
def reference(pictures, tmp_path_factory):
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("reference")
    outcome = train(recipe(pictures), folder, machine=CPU)
    assert outcome.reason == "finished"
    return folder


def test_a_run_leaves_weights_a_card_a_log_checkpoints_and_pictures(reference):
    model = EMRDM.load(reference / "model.safetensors")
    assert model.config == recipe("x").model
    assert model.card.results[0].protocol == "standard"
    assert math.isfinite(model.card.results[0].scores["psnr"])
    assert "seed 3407" in model.card.training
    text = (reference / "README.md").read_text()
    for needed in ("curves.png", "sheets/step-0000000", "protocol `standard`", "AdamW", "synthetic (", "Limits"):
        assert needed in text
    for name in ("curves.png", "sheets/step-00000003.png", "sheets/step-00000006.png", "recipe.json"):
        assert (reference / name).stat().st_size > 100
    assert [path.name for path in Checkpoints(reference / "checkpoints", keep=2).paths()] == [
        "step-00000004.safetensors",
        "step-00000006.safetensors",
    ]
    assert any((reference / "tensorboard").iterdir())
    rows = read_log(reference / "log.jsonl")
    assert rows[0]["compiled"] is False
    kinds = [row["kind"] for row in rows]
    assert kinds == ["start", "step", "step", "step", "validation", "step", "step", "step", "validation"]


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(pictures, reference, tmp_path, monkeypatch, stop):
    stop_at(monkeypatch, stop)
    outcome = train(recipe(pictures), tmp_path, machine=CPU)
    assert (outcome.reason, outcome.place.step) == ("time", stop)
    monkeypatch.undo()
    assert train(recipe(pictures), tmp_path, machine=CPU).reason == "finished"
    assert_same(reference, tmp_path)
    assert losses(tmp_path) == losses(reference)
    ours, theirs = (EMRDM.load(folder / "model.safetensors") for folder in (tmp_path, reference))
    assert ours.card == theirs.card
    for name, tensor in ours.network.state_dict().items():
        assert torch.equal(tensor, theirs.network.state_dict()[name])


def test_a_run_that_is_stopped_before_it_validates_leaves_the_weights_it_has(pictures, tmp_path, monkeypatch):
    """Until a validation chooses others, also where there are no images for one."""
    folder = tmp_path / "run"
    for root, steps in ((pictures, 6), (landscapes(tmp_path / "one", 1), 2)):
        plan = recipe(root, {"watch.validate_every": 100, "train.steps": steps, "train.batch_size": 1})
        stop_at(monkeypatch, 1)
        assert train(plan, folder, machine=CPU).reason == "time"
        monkeypatch.undo()
        model = EMRDM.load(folder / "model.safetensors")
        assert model.card.source.endswith(f"averaged weights at step 1 of {steps}")
        averaged = {name: newest(folder)[0][f"average.{name}"] for name, _ in model.network.named_parameters()}
        assert all(torch.equal(averaged[name], x) for name, x in model.network.named_parameters())
        assert train(plan, folder, machine=CPU).reason == "finished"
        assert f"step {steps} of {steps}" in EMRDM.load(folder / "model.safetensors").card.source
        shutil.rmtree(folder)


def test_weights_that_a_validation_chose_stay_when_the_run_is_stopped(pictures, tmp_path, monkeypatch):
    stop_at(monkeypatch, 5)
    assert train(recipe(pictures), tmp_path, machine=CPU).place.exported == 3
    assert "step 3 of 6" in EMRDM.load(tmp_path / "model.safetensors").card.source


def stop_at(monkeypatch, step):
    """The clock says that time is up when the run has done so many steps."""
    from emrdm.training import stopping

    asked = []

    def up(self, seconds_needed=0.0):
        asked.append(seconds_needed)
        return len(asked) >= step

    monkeypatch.setattr(stopping.Stopping, "time_is_up", up)


def test_paths_may_be_texts_or_paths(pictures, reference, tmp_path):
    data = [{"dataset": "synthetic", "root": Path(pictures)}]
    plan = recipe(pictures, {"train.steps": 1, "data": data})
    assert plan.data[0].root == str(pictures)
    outcome = train(plan, str(tmp_path / "run"), machine=CPU, start_from=str(reference / "model.safetensors"))
    assert outcome.folder.model == tmp_path / "run" / "model.safetensors"
    assert outcome.folder.model.is_file()
    with pytest.raises(InputError, match="the folder of a run is a int: expected a path"):
        train(plan, 7, machine=CPU)


def test_a_finished_run_is_left_as_it_is(pictures, reference, tmp_path):
    before = (reference / "model.safetensors").read_bytes(), losses(reference)
    assert train(recipe(pictures), reference, machine=CPU).reason == "finished"
    assert ((reference / "model.safetensors").read_bytes(), losses(reference)) == before


def test_another_seed_gives_another_run(pictures, reference, tmp_path):
    train(recipe(pictures, {"train.seed": 1}), tmp_path, machine=CPU)
    assert losses(tmp_path) != losses(reference)


def test_accumulated_batches_do_what_one_large_batch_does(pictures, tmp_path):
    plain = {"model.network.mapping_dropout": 0.0}
    train(recipe(pictures, plain), tmp_path / "whole", machine=CPU)
    train(recipe(pictures, {**plain, "train.batch_size": 1, "train.gpus": 4}), tmp_path / "parts", machine=CPU)
    (whole, _), (parts, _) = newest(tmp_path / "whole"), newest(tmp_path / "parts")
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_do_what_one_does(pictures, tmp_path, strategy):
    """The same global batch, dropout included, images of two shapes; then one process goes on with it."""
    larger = landscapes(tmp_path / "larger", 5, 40, seed=3)
    data = ["--data", f"synthetic={pictures}", "--data", f"synthetic={larger}", "--device", "cpu", "-q"]
    common = ["tiny", *data, *overrides(), "train.batch_size=2"]
    one = ["emrdm", "train", *common, "train.accumulate=2", "-o", str(tmp_path / "one")]
    assert started(one).returncode == 0
    launcher = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "emrdm"]  # torchrun
    if strategy == "ddp":
        launcher, common = ["emrdm"], [*common, "--devices", "2"]
    two = [*launcher, "train", *common, "-o", str(tmp_path / "two"), "--strategy", strategy]
    run = started(two)
    assert run.returncode == 0, run.stderr
    assert_close(tmp_path / "one", tmp_path / "two")
    longer = ["train.steps=8", "--allow-changes"]
    assert started([*(word for word in one if not word.startswith("train.steps=")), *longer]).returncode == 0
    there = ["emrdm", "train", str(tmp_path / "two"), "train.accumulate=2", "--device", "cpu", "-q", *longer]
    assert started(there).returncode == 0
    assert_close(tmp_path / "one", tmp_path / "two")
    first, second = (EMRDM.load(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert first.config == second.config


def assert_close(one, two):
    (single, state), (double, other) = newest(one), newest(two)
    assert {name: t.dtype for name, t in single.items()} == {name: t.dtype for name, t in double.items()}
    for name, tensor in single.items():
        torch.testing.assert_close(double[name], tensor, rtol=0, atol=1e-5, msg=name)
    assert [state[key] for key in ("step", "validated", "exported")] == [
        other[key] for key in ("step", "validated", "exported")
    ]


def started(words):
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )


def test_what_the_first_of_two_processes_refuses_is_said_once(pictures, reference, tmp_path):
    """Both end at once, with its exit code; and a file that only the second has met is in the log."""
    common = ["--device", "cpu", "-q", "--devices", "2", *overrides()]
    words = ["emrdm", "train", "tiny", "--data", f"synthetic={pictures}", "train.batch_size=2", *common]
    refused = started([*words, "-o", str(reference), "optimizer.lr=0.5"])
    assert refused.returncode == 2
    said = [line for line in refused.stderr.splitlines() if line]
    assert len(said) == 1
    assert "optimizer.lr is 0.5, was 0.0001" in said[0]


def overrides():
    """The settings of a small recipe as a user types them."""
    from tests.training.little import SMALL

    return [f"{key}={json.dumps(value)}" for key, value in SMALL.items() if key != "train.batch_size"]


def environment():
    import os

    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer.groups": "hdit", "optimizer.clip": 1.0, "optimizer.schedule": "cosine"},
        {"train.recompute": True},
        {"train.precision": "bf16-mixed"},
        {"train.crop": 16, "train.augmentation": "dihedral"},
        {"train.select": "last"},
    ],
)
def test_options_train_and_go_on(pictures, tmp_path, monkeypatch, changes):
    train(recipe(pictures, changes), tmp_path / "whole", machine=CPU)
    stop_at(monkeypatch, 3)
    train(recipe(pictures, changes), tmp_path / "parts", machine=CPU)
    monkeypatch.undo()
    train(recipe(pictures, changes), tmp_path / "parts", machine=CPU)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    if changes.get("train.select") == "last":
        assert "step 6 of 6" in EMRDM.load(tmp_path / "parts" / "model.safetensors").card.source
    assert all(math.isfinite(loss) for _, loss, _, _ in losses(tmp_path / "parts"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch compiles for CPUs with a compiler of C++")
@pytest.mark.filterwarnings("ignore")  # torch's compiler has some of its own
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_compiled_blocks_train_and_go_on(pictures, reference, tmp_path, monkeypatch, whole, recompute):
    from emrdm.training import machine

    # whole blocks, as where attention is a kernel; images of this size are one strip, which can be compiled as well
    def backend(_device):
        return "triton" if whole else "tiled"

    monkeypatch.setattr(machine, "choose", backend)
    changes = {"train.compile": True, "train.recompute": recompute}
    train(recipe(pictures, changes), tmp_path / "whole", machine=CPU)
    stop_at(monkeypatch, 3)
    train(recipe(pictures, changes), tmp_path / "parts", machine=CPU)
    monkeypatch.undo()
    monkeypatch.setattr(machine, "choose", backend)
    train(recipe(pictures, changes), tmp_path / "parts", machine=CPU)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert ", compiled |" in (tmp_path / "parts" / "README.md").read_text()
    for (_, a, _, _), (_, b, _, _) in zip(losses(tmp_path / "whole"), losses(reference), strict=True):
        assert a == pytest.approx(b, rel=0.05)  # dropout draws in another order


def test_recomputing_changes_nothing(pictures, reference, tmp_path):
    train(recipe(pictures, {"train.recompute": True}), tmp_path, machine=CPU)
    assert_same(reference, tmp_path)


def test_workers_and_caches_change_nothing(pictures, reference, tmp_path):
    for name, machine in (
        ("workers", Machine(device="cpu", workers=2)),
        ("memory", Machine(device="cpu", cache="memory")),
        ("disk", Machine(device="cpu", cache=tmp_path / "decoded")),
    ):
        train(recipe(pictures), tmp_path / name, machine=machine)
        assert_same(reference, tmp_path / name)


def test_a_changed_recipe_is_refused_with_the_difference(pictures, reference):
    with pytest.raises(ConfigError, match=r"optimizer.lr is 0.002, was 0.0001.*--allow-changes"):
        train(recipe(pictures, {"optimizer.lr": 2e-3}), reference, machine=CPU)


def test_a_warm_up_that_is_longer_than_the_run_is_said(pictures, tmp_path, caplog):
    for warmup in (1, 2):
        train(recipe(pictures, {"optimizer.warmup": warmup, "train.steps": 1}), tmp_path / f"{warmup}", machine=CPU)
    assert [line for line in caplog.messages if "warmup" in line] == [
        "optimizer.warmup is 2: in 1 step the learning rate does not get to optimizer.lr"
    ]


def test_weights_to_start_from(pictures, reference, tmp_path):
    train(
        recipe(pictures, {"optimizer.lr": 1e-12, "train.steps": 1}),
        tmp_path / "run",
        machine=CPU,
        start_from=reference / "model.safetensors",
    )
    start, end = EMRDM.load(reference / "model.safetensors"), EMRDM.load(tmp_path / "run" / "model.safetensors")
    for name, tensor in start.network.state_dict().items():
        torch.testing.assert_close(end.network.state_dict()[name], tensor, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="another network"):
        train(
            recipe(pictures, {"model.network.depths": [2, 1]}),
            tmp_path / "other",
            machine=CPU,
            start_from=reference / "model.safetensors",
        )
    finished = train(recipe(pictures, {"optimizer.lr": 1e-12, "train.steps": 1}), tmp_path / "run", machine=CPU)
    assert finished.reason == "finished"  # a run goes on without them


def test_several_data_sets_with_bands_in_another_order_train_together(pictures, tmp_path):
    changes = {
        "data": [
            {"dataset": "synthetic", "root": str(pictures)},
            {
                "dataset": "synthetic",
                "root": str(landscapes(tmp_path / "more", 11, 40)),
                "bands": ["blue", "green", "red"],
            },
        ]
    }
    outcome = train(recipe(pictures, changes), tmp_path / "run", machine=CPU)
    assert outcome.place.validations[-1]["scores"].keys() == {"synthetic-1", "synthetic-2"}


def test_series_train_a_multi_temporal_network(pictures, tmp_path):
    changes = {
        "model.aux": [],
        "model.inputs": ["noisy", "cloudy"],
        "model.frames": 2,
        "model.network.temporal_heads": 2,
    }
    outcome = train(recipe(pictures, changes, preset="tiny-temporal"), tmp_path, machine=CPU)
    assert outcome.reason == "finished"
    assert EMRDM.load(tmp_path / "model.safetensors").config.frames == 2


@pytest.mark.timeout(150)
def test_a_tiny_model_gains_eight_decibels_within_two_minutes(tmp_path):
    """Eight pairs, learnt by heart: the loop, the objective, the average and the sampler must all be right for it."""
    import time

    root = landscapes(tmp_path / "clear", 9, 32)  # one is set aside for validation
    began = time.monotonic()
    preset = load_preset("tiny").replace(
        {
            "train.steps": 500,
            "train.batch_size": 8,
            "train.augmentation": "none",
            "optimizer.lr": 3e-3,
            "optimizer.schedule": "cosine",
            "optimizer.clip": 1.0,
            "optimizer.ema_decay": 0.99,
            "data": [{"dataset": "pairs", "root": str(pairs_of(root, tmp_path / "pairs"))}],
        }
    )
    train(preset, tmp_path / "run", machine=CPU)
    seconds = time.monotonic() - began
    model = EMRDM.load(tmp_path / "run" / "model.safetensors")
    data = open_dataset("pairs", tmp_path / "pairs", split="train")
    assert len(data) == 8
    cloudy = torch.stack([data[i].cloudy[0] for i in range(len(data))])
    clear = torch.stack([data[i].target for i in range(len(data))])
    restored = model.restore(cloudy, seed=0, scaled=True)
    unit = lambda x: ((x + 1) / 2).clamp(0, 1)  # noqa: E731
    before = psnr(unit(cloudy), unit(clear)).mean().item()
    after = psnr(unit(restored), unit(clear)).mean().item()
    assert after >= before + 8, (before, after)
    assert seconds < 120, seconds


def pairs_of(clear, folder):
    """Pictures and their cloudy twins as files: a data set that never changes."""
    from PIL import Image

    from emrdm.data import draw_clouds
    from emrdm.data.layout import VALIDATION, share

    (folder / "cloudy").mkdir(parents=True)
    (folder / "clear").mkdir()
    names = (name for i in range(99) if share(name := f"pair{i}") >= VALIDATION)  # none is held out for validation
    for i, (path, name) in enumerate(zip(sorted(clear.iterdir()), names, strict=False)):
        pixels = np.asarray(Image.open(path))
        unit = torch.from_numpy(pixels.copy()).movedim(-1, 0) / 255
        cloudy = draw_clouds(unit, fold(7, i), bands=["red", "green", "blue"]).cloudy
        image = (cloudy.movedim(0, -1) * 255).round().to(torch.uint8).numpy()
        Image.fromarray(image).save(folder / "cloudy" / f"{name}.png")
        Image.fromarray(pixels).save(folder / "clear" / f"{name}.png")
    return folder


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # torch's compiler has some of its own
@pytest.mark.parametrize(
    "changes", [{}, {"train.precision": "bf16-mixed"}, {"train.compile": True, "train.precision": "bf16-mixed"}]
)
def test_a_gpu_trains_and_goes_on_bit_for_bit(pictures, tmp_path, monkeypatch, changes):
    changes = {"train.deterministic": True, **changes}
    machine = Machine(device="cuda", workers=2)
    train(recipe(pictures, changes), tmp_path / "whole", machine=machine)
    stop_at(monkeypatch, 3)
    train(recipe(pictures, changes), tmp_path / "parts", machine=machine)
    monkeypatch.undo()
    train(recipe(pictures, changes), tmp_path / "parts", machine=machine)
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.gpu
def test_a_gpu_does_what_a_cpu_does(pictures, reference, tmp_path):
    """Noise and order have the same bits everywhere; what is left is rounding (and dropout, which is off here)."""
    changes = {"model.network.mapping_dropout": 0.0, "train.precision": "fp32"}
    train(recipe(pictures, changes), tmp_path / "gpu", machine=Machine(device="cuda"))
    train(recipe(pictures, changes), tmp_path / "cpu", machine=CPU)
    for (_, a, _, _), (_, b, _, _) in zip(losses(tmp_path / "gpu"), losses(tmp_path / "cpu"), strict=True):
        assert a == pytest.approx(b, rel=1e-3)


@pytest.mark.gpu
def test_a_gpu_can_spread_the_model(pictures, tmp_path):
    train(recipe(pictures), tmp_path / "fsdp", machine=Machine(device="cuda", strategy="fsdp"))
    train(recipe(pictures), tmp_path / "one", machine=Machine(device="cuda"))
    (spread, _), (one, _) = newest(tmp_path / "fsdp"), newest(tmp_path / "one")
    for name, tensor in one.items():
        torch.testing.assert_close(spread[name], tensor, rtol=0, atol=1e-4)
