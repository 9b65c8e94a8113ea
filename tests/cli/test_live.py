"""A training run as it is watched."""

import logging

import pytest
from tests.cli.test_progress import Stream

from emrdm.cli.live import Live

START = {
    "kind": "start", "step": 0, "steps": 100, "parameters": 1234, "samples": 50, "validation_images": 5,
    "samples_a_step": 12, "batch_size": 2, "processes": 3, "accumulate": 2, "device": "cpu", "changes": [],
}  # fmt: skip


def step(number, speed=24.0):
    return {"kind": "step", "step": number, "steps": 100, "loss": 0.5, "images_per_s": speed, "memory": 2e9}


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("emrdm.cli.live.time.monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then(clock):
    stream = Stream(terminal=False)
    live = Live("rgb", stream=stream)
    live(START)
    for number in range(1, 101):
        clock[0] += 1
        live(step(number))
    lines = stream.text.splitlines()
    assert lines[0] == (
        "rgb: 1,234 parameters, 50 training and 5 validation images, 12 samples a step (2 x 3 processes x 2 batches), "
        "cpu; starts; 100 steps"
    )
    assert lines[1] == "step 1/100 (1 %)  loss 0.5000  24.0 images/s  2.0 GB  50 s left"
    assert lines[-1].startswith("step 100/100 (100 %)")
    assert len(lines) == 1 + 8


def test_a_terminal_keeps_one_line_and_validations_above_it(clock):
    stream = Stream(terminal=True)
    live = Live("rgb", stream=stream)
    live(START)
    for number in (1, 2):
        clock[0] += 1
        live(step(number))
    scores = {"rice1": {"psnr": 20.0, "ssim": 0.5, "protocol": "standard", "images": 5}}
    scores["rice1"]["untouched"] = {"what": "the cloudy image", "psnr": 18.0}
    live({"kind": "validation", "step": 2, "scores": scores, "best": True})
    live.end()
    assert stream.text.count("\n") == 2
    assert "\rstep 2/100" in stream.text
    assert (
        "PSNR 20.00 dB, SSIM 0.5000 (protocol standard, 5 validation images; the cloudy image: 18.00 dB), the"
        in stream.text
    )


def test_going_on_and_what_has_changed_are_said():
    stream = Stream(terminal=False)
    Live("rgb", stream=stream)({**START, "step": 40, "changes": ["optimizer.lr is 1, was 2"]})
    assert stream.text.endswith("goes on from step 40 of 100 steps; changed: optimizer.lr is 1, was 2\n")


def test_messages_of_the_log_stand_on_lines_of_their_own(clock):
    stream = Stream(terminal=True)
    live = Live("rgb", stream=stream)
    live(START)
    live(step(1))
    handler = logging.StreamHandler(stream)
    handler.addFilter(live.make_way)
    handler.handle(logging.makeLogRecord({"msg": "left out: a file"}))
    clock[0] += 1
    live(step(2))
    assert stream.text.split("\n")[2] == "left out: a file"


def test_silence():
    stream = Stream(terminal=True)
    live = Live("rgb", silent=True, stream=stream)
    live(START)
    live(step(1))
    live.end()
    assert stream.text == ""
