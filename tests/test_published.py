"""Checkpoints of the published implementation, in and out."""

import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch

from emrdm import EMRDM, WeightsError
from emrdm.published import EMA, LIVE, ema_name, published_state

PRESETS = {"cuhk": "cuhk-cr1", "sentinel": "sen12ms-cr", "sen2_mtc_new": "sen2-mtc-new"}


def listed(name):
    return json.loads((Path(__file__).parent / "published" / f"state_{name}.json").read_text())["entries"]


def their_state(entries, seed=0):
    """A state dictionary as their code writes it: live weights, then averaged ones; all different."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda entry: torch.randn(entry["shape"], generator=generator)  # noqa: E731
    state = {LIVE + entry["name"]: draw(entry) for entry in entries}
    state |= {f"{EMA}decay": torch.tensor(0.9999), f"{EMA}num_updates": torch.tensor(22500, dtype=torch.int32)}
    return state | {ema_name(entry["name"]): draw(entry) for entry in entries if entry["kind"] == "param"}


def small_entries(preset="tiny"):
    """The entries of a small network, in the published form."""
    network = EMRDM.from_preset(preset).network
    buffers = {name for name, _ in network.named_buffers()}
    return [
        {"name": name, "shape": list(tensor.shape), "kind": "buffer" if name in buffers else "param"}
        for name, tensor in network.state_dict().items()
    ]


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "their.ckpt"
    state = their_state(small_entries())
    torch.save({"state_dict": state, "epoch": 499, "global_step": 22500, "pytorch-lightning_version": "2.0.1"}, path)
    return path, state


def test_the_name_of_an_averaged_parameter_loses_its_dots():
    assert ema_name("patch_in.proj.weight") == "model_ema.diffusion_modelpatch_inprojweight"


def test_averaged_parameters_and_live_buffers_are_taken(checkpoint):
    path, state = checkpoint
    model = EMRDM.from_published(path, preset="tiny", licence="AGPL-3.0", source="their release")
    for name, tensor in model.network.state_dict().items():
        live = name == "time_emb.weight" or name.endswith("freqs")
        assert torch.equal(tensor, state[LIVE + name if live else ema_name(name)])
    assert (model.card.licence, model.card.source) == ("AGPL-3.0", "their release")


def test_live_weights_can_be_asked_for(checkpoint):
    path, state = checkpoint
    model = EMRDM.from_published(path, preset="tiny", ema=False)
    assert all(torch.equal(tensor, state[LIVE + name]) for name, tensor in model.network.state_dict().items())
    assert "live weights" in model.card.source


@pytest.mark.parametrize("preset", ["tiny", "tiny-temporal"])
def test_export_is_imported_to_the_same_weights(tmp_path, preset):
    model = EMRDM.from_preset(preset, seed=3)
    model.to_published(tmp_path / "back.ckpt")
    again = EMRDM.from_published(tmp_path / "back.ckpt", preset=preset)
    for name, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name])


@pytest.mark.parametrize("name", PRESETS)
def test_every_published_name_and_shape_is_imported_and_exported_identically(name, tmp_path):
    """Full size, all entries: 0 missing, 0 unexpected, and the same names, order, shapes and values on the way back."""
    entries = listed(name)
    state = their_state(entries)
    path = tmp_path / "their.ckpt"
    torch.save({"state_dict": state}, path)
    model = EMRDM.from_published(path, preset=PRESETS[name])
    own = model.network.state_dict()
    assert [(key, list(tensor.shape)) for key, tensor in own.items()] == [(e["name"], e["shape"]) for e in entries]

    back = published_state(model.config, own)
    assert list(back) == list(state)
    for key, tensor in state.items():
        assert back[key].shape == tensor.shape
        if key.startswith(EMA) and "diffusion_model" in key:
            assert torch.equal(back[key], tensor)


def refusal(path, preset="tiny", **options):
    with pytest.raises(WeightsError) as caught:
        EMRDM.from_published(path, preset=preset, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_wrong_preset_is_refused_and_the_right_one_named(checkpoint):
    message = refusal(checkpoint[0], preset="cuhk-cr1")
    assert message.endswith("; presets that fit: tiny")


def test_presets_of_data_sets_are_recommended_before_ablations(tmp_path):
    path = tmp_path / "their.ckpt"
    torch.save({"state_dict": {LIVE + e["name"]: torch.zeros(e["shape"]) for e in listed("sen2_mtc_new")}}, path)
    assert "presets that fit: sen2-mtc-new, config-c" in refusal(path, preset="cuhk-cr1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop(LIVE + "out_norm.scale"), "out_norm.scale is missing"),
        (lambda s: s.pop(ema_name("out_norm.scale")), "model_ema.diffusion_modelout_normscale is missing (1 averaged"),
        (lambda s: s.update({"loss.weight": torch.ones(1)}), "loss.weight does not belong"),
        (lambda s: s.update({LIVE + "more": torch.ones(1)}), "more does not belong"),
        (lambda s: s.update({LIVE + "out_norm.scale": torch.ones(5)}), "out_norm.scale has shape (5,)"),
        (lambda s: s.update({ema_name("out_norm.scale"): torch.ones(5)}), "has shape (5,): expected (32,)"),
        (lambda s: s[ema_name("out_norm.scale")].fill_(float("nan")), "NaN or infinite"),
        (lambda s: [s.pop(key) for key in list(s) if key.startswith(LIVE)], "not a published EMRDM checkpoint"),
    ],
)
def test_incomplete_or_foreign_states_are_refused(checkpoint, change, message):
    path, state = checkpoint
    change(state)
    torch.save({"state_dict": state}, path)
    assert message in refusal(path)


def test_missing_averages_can_be_done_without(checkpoint):
    path, state = checkpoint
    torch.save({"state_dict": {key: tensor for key, tensor in state.items() if key.startswith(LIVE)}}, path)
    assert "--live" in refusal(path)
    EMRDM.from_published(path, preset="tiny", ema=False)


class Bomb:
    """Makes a file when it is unpickled by an ordinary unpickler."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def test_code_in_a_checkpoint_is_never_run(checkpoint, tmp_path):
    path, state = checkpoint
    crater = tmp_path / "went-off"
    torch.save({"state_dict": state, "callbacks": Bomb(crater)}, path)
    assert refusal(path).endswith(
        "cannot be read as plain tensors, and nothing else is done with it: it asks for posix.system"
    )
    torch.save({"state_dict": state, "callbacks": Path("x")}, path)
    assert "it asks for pathlib" in refusal(path)
    path.write_bytes(pickle.dumps({"state_dict": Bomb(crater)}))
    assert "is not a checkpoint: expected a zip archive" in refusal(path)
    assert not crater.exists()


def test_a_flipped_bit_is_noticed(checkpoint):
    """torch does not look at the checksums of the archive."""
    path, _ = checkpoint
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert "is damaged: the checksum of" in refusal(path)


def test_compressed_archives_are_refused_before_they_are_unpacked(tmp_path):
    path = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}." + bytes(50_000_000))
    assert path.stat().st_size < 100_000
    assert "is compressed" in refusal(path)


def test_tuples_nested_without_end_are_refused_before_they_are_hashed(tmp_path):
    """A dictionary whose key is a tuple of tuples of tuples ... takes for ever to build."""
    pickled = b"\x80\x02})q\x00"
    for i in range(80):
        pickled += b"h" + bytes([i]) + b"\x86q" + bytes([i + 1])
    path = tmp_path / "endless.ckpt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", pickled + b"K\x01s.")
        archive.writestr("a/version", "3\n")
    assert "tuples nested without end" in refusal(path)


def test_tensors_that_share_their_memory_become_tensors_of_their_own(checkpoint):
    path, state = checkpoint
    names = [name for name in state if name.startswith(EMA) and state[name].shape == (32, 64)]
    state[names[1]] = state[names[0]]
    state[names[2]] = torch.zeros(1).expand(32, 64)
    torch.save({"state_dict": state}, path)
    model = EMRDM.from_published(path, preset="tiny")
    model.save(path.with_suffix(".safetensors"))


def test_damaged_and_foreign_files_are_refused(checkpoint):
    path, _ = checkpoint
    data = path.read_bytes()
    for content in (data[: len(data) // 2], b"", b"GIF89a", b"PK\x03\x04"):
        path.write_bytes(content)
        assert path.name in refusal(path)
    assert "weights_only" not in refusal(path)  # torch's own message recommends to trust the file
    for odd in (
        torch.zeros(2, device="meta"),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, dtype=torch.int64),
    ):
        torch.save({"state_dict": {LIVE + "out_norm.scale": odd}}, path)
        assert path.name in refusal(path)
    torch.save({"state_dict": {"evil\nname\x1b[31m" + "k" * 10_000: torch.zeros(2)}}, path)
    assert len(refusal(path)) < 700
    torch.save([1, 2, 3], path)
    assert "no table of tensors called 'state_dict'" in refusal(path)
    path.unlink()
    assert "cannot be read" in refusal(path)
