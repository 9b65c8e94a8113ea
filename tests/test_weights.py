"""Weights files: what is written comes back; what is wrong is refused with the reason."""

import contextlib
import json
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.test_published import Bomb

from emrdm import EMRDM, EmrdmError, InputError, ModelCard, Results, WeightsError, load_preset
from emrdm.strict import dump
from emrdm.weights import digest, load, read_header, save, stored_dtype

CARD = ModelCard(
    title="a model",
    source="trained here",
    licence="CC-BY-4.0",
    training="RICE1, 100 steps",
    results=(Results("RICE1", "standard", "measured", {"psnr": 30.5}),),
)


@pytest.fixture
def model():
    model = EMRDM.from_preset("tiny", seed=1)
    model.card = CARD
    return model


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    return path


def rewrite(path, *, change_tensors=None, change_content=None, keep_digest=True):
    """The same file with something changed, the digest repaired unless asked otherwise."""
    tensors = load_file(path)
    with safe_open(path, "pt") as stream:
        content = json.loads(stream.metadata()["emrdm"])
    header = read_header(path)
    if change_tensors:
        change_tensors(tensors)
    if keep_digest:
        content["digest"] = digest(header.config, header.card, tensors)
    if change_content:
        change_content(content)
    save_file(tensors, path, metadata={"emrdm": json.dumps(content)})


def refusal(path):
    with pytest.raises(WeightsError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_a_file_describes_itself(model, path):
    header, state = load(path)
    assert header.config == model.config
    assert header.card == CARD
    assert stored_dtype(path) == "F32"
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.network.state_dict().items())
    again = EMRDM.load(path)
    assert again.card == CARD
    assert all(parameter.requires_grad for parameter in again.network.parameters())
    x = torch.rand(3, 20, 20) * 255
    assert torch.equal(again.restore(x), model.restore(x))


def test_the_whole_configuration_is_in_the_header(tmp_path):
    changes = {
        "model.process.alpha": 1.5,
        "model.sampler.method": "heun",
        "model.sampler.churn": 2.5,
        "model.frames": 5,
    }
    config = load_preset("tiny-temporal").replace(changes).model
    save(tmp_path / "m.safetensors", config, CARD, EMRDM(config).network.state_dict())
    assert dump(read_header(tmp_path / "m.safetensors").config) == dump(config)


@pytest.mark.parametrize(("dtype", "name"), [(torch.float16, "F16"), (torch.bfloat16, "BF16")])
def test_half_precision_halves_the_file(model, path, tmp_path, dtype, name):
    half = tmp_path / "half.safetensors"
    model.save(half, dtype=dtype)
    assert half.stat().st_size < 0.6 * path.stat().st_size
    _, state = load(half)
    assert stored_dtype(half) == name
    buffers = dict(model.network.named_buffers())
    for key, tensor in model.network.state_dict().items():
        assert torch.equal(state[key], tensor if key in buffers else tensor.to(dtype).float())


def test_weights_lie_in_memory_as_those_of_a_fresh_model(path):
    _, state = load(path)  # sums of the CPU depend on it, and so the bits of a result
    assert all(tensor.data_ptr() % 64 == 0 for tensor in state.values() if tensor.numel())


def test_nothing_else_is_left_in_the_folder(path):
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_failed_save_keeps_the_old_file(model, path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(EmrdmError, match=r"could not be written, [\d,]+ bytes are needed: disk full"):
        model.save(path)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


def test_nan_weights_are_refused_on_both_ways(model, path):
    def spoil(tensors):
        tensors["out_norm.scale"][3] = float("nan")

    rewrite(path, change_tensors=spoil)
    assert "out_norm.scale holds NaN or infinite values" in refusal(path)
    model.network.out_norm.scale.data[3] = float("inf")
    with pytest.raises(WeightsError, match="NaN or infinite"):
        model.save(path.with_name("other.safetensors"))
    assert not path.with_name("other.safetensors").exists()


@pytest.mark.parametrize("size", [0, 3, 7, 8, 100, 5000, -1000, -1])
def test_a_truncated_file_is_refused(path, size):
    data = path.read_bytes()
    path.write_bytes(data[:size])
    assert "not a complete safetensors file" in refusal(path)


def test_a_flipped_bit_is_noticed(path):
    data = bytearray(path.read_bytes())
    data[-1234] ^= 1
    path.write_bytes(data)
    assert "does not match the digest" in refusal(path)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_is_refused_and_not_run(path, protocol, tmp_path):
    crater = tmp_path / "went-off"
    path.write_bytes(pickle.dumps(Bomb(crater), protocol=protocol))
    assert "is a pickle" in refusal(path)
    torch.save({"state_dict": {}}, path)
    assert "is a pickle" in refusal(path)
    assert not crater.exists()


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<Q", 2**62) + b"{}",  # a header longer than any file
        struct.pack("<Q", 10) + b"not json!!",
        struct.pack("<Q", 76) + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32"...}}',
    ],
)
def test_hostile_headers_are_refused(path, header):
    path.write_bytes(header)
    assert "not a complete safetensors file" in refusal(path)


def test_overlapping_tensors_are_refused(path):
    entries = {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert "not a complete safetensors file" in refusal(path)


def test_shapes_beyond_all_numbers_are_refused(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    for shape in ([0, 2**63], [0, 2**64 - 1]):
        header["extra"] = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        refusal(path)


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    assert "it is not a file" in refusal(pipe)
    with pytest.raises(WeightsError, match="it is not a file"):
        EMRDM.from_published(pipe, preset="tiny")


def test_names_that_are_too_long_are_refused_and_leave_nothing(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WeightsError, match="File name too long"):
        EMRDM.load("a" * 5000)
    with pytest.raises(InputError, match="File name too long"):
        model.save("a" * 5000)
    assert list(tmp_path.iterdir()) == []


def test_devices_are_refused():
    for name in ("/dev/null", "/dev/full"):
        with pytest.raises(WeightsError, match=name):
            load(Path(name))


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_is_refused_or_harmless(path, seed):
    """Bytes flipped, cut and put in, mostly in the header: our own errors only."""
    data, generator = path.read_bytes(), random.Random(seed)
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            place = generator.randrange(generator.choice([8, 3000, 7000, len(damaged)]))
            action = generator.randrange(3)
            if action == 0:
                damaged[place] = generator.randrange(256)
            elif action == 1:
                del damaged[place : place + generator.randint(1, 50)]
            else:
                damaged[place:place] = generator.randbytes(generator.randint(1, 50))
        path.write_bytes(damaged)
        with contextlib.suppress(WeightsError):
            load(path)


def test_a_plain_safetensors_file_is_refused(path):
    save_file({"a": torch.zeros(2)}, path)
    assert "the header has no entry 'emrdm'" in refusal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("out_norm.scale"), "out_norm.scale is missing (1 of"),
        (lambda t: t.update(extra=torch.zeros(2)), "extra does not belong to this network (1 such"),
        (lambda t: t.update({"out_norm.scale": torch.ones(31)}), "out_norm.scale has shape (31,): expected (32,)"),
        (
            lambda t: t.update({"out_norm.scale": torch.ones(32, dtype=torch.float64)}),
            "tensors are of type F32, F64: expected parameters all of",
        ),
        (lambda t: [t.pop(name) for name in list(t)[2:]], "is missing"),
    ],
)
def test_a_state_that_is_not_the_networks_is_refused(path, change, message):
    rewrite(path, change_tensors=change)
    assert message in refusal(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=True), "names no format"),
        (lambda c: c.update(digest=None), "digest is None: expected a text"),
        (lambda c: c["config"]["process"].update(alpha=2.5), "does not match the digest"),
        (lambda c: c["config"]["bands"][0].update(high=999.0), "does not match the digest"),
        (lambda c: c["card"].update(licence="MIT"), "does not match the digest"),
        (lambda c: c["config"]["network"].update(depths=[200, 200]), "network.depths has 400"),
        (lambda c: c.update(format=2), "format 2: this version of emrdm reads format 1"),
        (lambda c: c.pop("format"), "names no format"),
        (lambda c: c.pop("config"), "the header is not valid: config is missing"),
        (lambda c: c.update(digest="0" * 64), "does not match the digest"),
        (lambda c: c["config"].update(framse=3), "unknown key 'config.framse'; did you mean 'frames'?"),
        (lambda c: c["config"]["network"].update(widths=[10**12, 64]), "network.widths has 1000000000000"),
        (lambda c: c["config"]["network"].update(depths=[10**9, 2]), "network.depths has 1000000000"),
        (
            lambda c: c["config"]["network"].update(widths=[2048, 2048], hidden=[2048, 2048], depths=[64, 64]),
            "numbers for a network of",
        ),
        (
            lambda c: c["config"].update(bands=[dict(c["config"]["bands"][0], name=str(i)) for i in range(5000)]),
            "channels",
        ),
        (lambda c: c["config"]["process"].update(alpha=-1), "process.alpha is -1"),
        (lambda c: c["card"].update(results=3), "results is 3: expected a list"),
        (lambda c: c.update(config=[1, 2]), "expected a table of keys"),
        (lambda c: c["card"]["results"][0]["scores"].update(psnr=10**400), "expected a number"),
        (lambda c: c["config"].update({"x" * 300_000: 1}), "unknown key"),
        (lambda c: c.update(more="x" * 2_000_000), "characters: expected a few thousand"),
    ],
)
def test_a_header_that_does_not_hold_together_is_refused(path, change, message):
    rewrite(path, change_content=change)
    assert message in refusal(path)


def test_a_header_that_is_not_json_is_refused(path):
    tensors = load_file(path)
    for text in ("{", "[" * 100_000, "3"):
        save_file(tensors, path, metadata={"emrdm": text})
        assert "the header entry 'emrdm'" in refusal(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(WeightsError, match=r"nowhere.safetensors cannot be read: No such file"):
        EMRDM.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(WeightsError, match=r"is a folder without model.safetensors: expected a weights file or a"):
        EMRDM.load(tmp_path)


def test_the_folder_of_a_run_is_its_weights(path, tmp_path):
    (tmp_path / "run").mkdir()
    EMRDM.load(path).save(tmp_path / "run" / "model.safetensors")
    assert EMRDM.load(str(tmp_path / "run")).digest() == EMRDM.load(path).digest()


def test_reading_a_header_reads_no_weights(path):
    """A damaged tensor does not disturb it: only the header was looked at."""
    data = bytearray(path.read_bytes())
    data[-1234] ^= 1
    path.write_bytes(data)
    assert read_header(path).card == CARD


def test_storing_as_integers_is_refused(model, tmp_path):
    with pytest.raises(WeightsError, match=r"cannot be stored as torch\.int8"):
        model.save(tmp_path / "m.safetensors", dtype=torch.int8)


def test_a_process_of_ones_own_cannot_be_saved(tmp_path):
    from tests.diffusion.test_process import Exponential

    model = EMRDM(load_preset("tiny").model, process=Exponential())
    assert model.restore(torch.rand(3, 16, 16) * 255).shape == (3, 16, 16)
    with pytest.raises(WeightsError, match="process Exponential cannot be saved"):
        model.save(tmp_path / "m.safetensors")


def test_sigkill_during_a_save_leaves_the_old_file_or_the_new_one(path):
    """A short form of the crash test: kill a process that saves in a loop, at several moments after its first save."""
    script = (
        "import sys, emrdm\n"
        "model = emrdm.EMRDM.from_preset('tiny', seed=2)\n"
        "while True:\n    model.save(sys.argv[1])\n    print('saved', flush=True)\n"
    )
    before = path.read_bytes()
    for delay in (0.0, 0.011, 0.023, 0.037):
        process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"saved\n"
        time.sleep(delay)
        process.kill()
        process.communicate()
        load(path)
    assert path.read_bytes() != before
    EMRDM.load(path).save(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]  # what the killed ones left is gone


@pytest.mark.parametrize("write", [EMRDM.save, EMRDM.to_published])
def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(model, tmp_path, write):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # no file may grow beyond this
    try:
        with pytest.raises(EmrdmError) as caught:
            write(model, tmp_path / "model.out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "model.out could not be written" in str(caught.value)
    assert caught.value.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_number_too_large_for_the_type_names_the_file_and_the_tensor(model, tmp_path):
    model.network.out_norm.scale.data[0] = 1e30
    with pytest.raises(WeightsError) as caught:
        model.save(tmp_path / "half.safetensors", dtype=torch.float16)
    assert "half.safetensors, as torch.float16, out_norm.scale holds NaN or infinite values" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
