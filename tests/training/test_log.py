"""The log: what came after the checkpoint goes, half a line is not one, numbers survive."""

import math

from emrdm.training.log import Log, read_log


def test_rows_are_heard_and_kept(tmp_path):
    heard = []
    log = Log(tmp_path, step=0, validated=0, listener=heard.append)
    log.add("step", 1, loss=0.1 + 0.2)
    log.close()
    assert heard == [{"kind": "step", "step": 1, "loss": 0.1 + 0.2}]
    assert read_log(tmp_path / "log.jsonl") == heard


def test_a_run_that_goes_on_forgets_what_will_happen_again(tmp_path):
    log = Log(tmp_path, step=0, validated=0)
    for step in range(1, 6):
        log.add("step", step, loss=float(step))
    log.close()
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # killed in the middle of a line
    log = Log(tmp_path, step=3, validated=3)
    log.add("step", 4, loss=40.0)
    log.close()
    assert [(row["step"], row["loss"]) for row in read_log(tmp_path / "log.jsonl")] == [(1, 1), (2, 2), (3, 3), (4, 40)]


def test_what_is_not_finite_survives(tmp_path):
    log = Log(tmp_path, step=0, validated=0)
    log.add("skipped", 1, loss=math.nan, norm=math.inf, names=["a"], scores={"x": {"psnr": -math.inf}})
    log.close()
    (row,) = read_log(tmp_path / "log.jsonl")
    assert math.isnan(float(row["loss"]))
    assert float(row["norm"]) == math.inf
    assert float(row["scores"]["x"]["psnr"]) == -math.inf


def test_tensorboard_has_the_scalars(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = Log(tmp_path, step=0, validated=0)
    log.add("step", 1, loss=0.5, lr=0.25)
    log.add("validation", 1, scores={"rice1": {"protocol": "standard", "psnr": 20.0}}, best=True)
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "train/lr", "validation/rice1/psnr"}
    assert [(event.step, event.value) for event in events.Scalars("validation/rice1/psnr")] == [(1, 20.0)]


def test_no_log_yet_is_no_row(tmp_path):
    assert read_log(tmp_path / "log.jsonl") == []
