"""emrdm info."""

import json

import pytest

from emrdm import EMRDM, ModelCard, Results, preset_names
from emrdm.cli import main


def output(capsys, *arguments):
    assert main(["info", *arguments]) == 0
    return capsys.readouterr().out


def test_the_folder_of_a_run_is_its_weights(tmp_path, capsys):
    EMRDM.from_preset("tiny").save(tmp_path / "model.safetensors")
    assert main(["info", str(tmp_path)]) == 0
    assert "173,421" in capsys.readouterr().out


def test_without_a_model_it_lists_the_presets(capsys):
    text = output(capsys)
    assert [line.split()[0] for line in text.splitlines() if line and not line.startswith("emrdm")] == preset_names()
    assert set(json.loads(output(capsys, "--json"))) == set(preset_names())


def test_a_preset(capsys):
    text = " ".join(output(capsys, "sen12ms-cr").split())
    for part in (
        "39,133,515 (paper: 39.13 M)",
        "83.57 G in the paper's convention (paper: 83.57), 192.12 G counted fully; one call at 256 x 256",
        "157 MB of weights",
        "B1, B2, B3, B4, B5, B6, B7, B8, B8A, B9, B10, B11, B12 [reflectance x 10000, 0 .. 10000, clipped]",
        "VV, VH [dB, -25 .. 0, clipped]",
        "stochastic, 5 steps, sigma 100 .. 0.001, rho 7, churn 5, noise 1.023",
        "PSNR 32.14, SSIM 0.924, MAE 0.018, SAM 5.267 on SEN12MS-CR, protocol sen12ms-cr (Table 1 (c))",
        "its weights start at random",
    ):
        assert part in text


def test_a_weights_file_says_where_it_comes_from(capsys, tmp_path):
    model = EMRDM.from_preset("tiny-temporal")
    results = (Results("RICE1", "standard", "measured here", {"psnr": 31.25, "ssim": 0.9}),)
    model.card = ModelCard("dated series", "trained by me", "CC0-1.0", "RICE1, 5 minutes", results)
    path = tmp_path / "weights.safetensors"
    model.save(path)
    text = " ".join(output(capsys, str(path)).split())
    for part in (
        "dated series",
        "made for 3 frames, takes any number",
        "trained by me; stored as F32",
        "licence CC0-1.0",
        "trained on RICE1, 5 minutes",
        "PSNR 31.25, SSIM 0.9 on RICE1, protocol standard (measured here)",
        "digest",
    ):
        assert part in text


def test_presets_win_over_folders_of_their_name(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sen12ms-cr").mkdir()
    assert "39,133,515" in output(capsys, "sen12ms-cr")


def test_the_weights_inside_the_package(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").mkdir()  # the name wins
    card = EMRDM.default().card
    text = " ".join(output(capsys, "default").split())
    assert text.startswith(f"default: {card.title} ")
    for part in ("11,193,755", "red, green, blue [8-bit value", "stored as F16", f"licence {card.licence}", "digest"):
        assert part in text
    assert json.loads(output(capsys, "default", "--json"))["weights"]["source"] == card.source
    assert "emrdm info default" in output(capsys)
    assert "trained ones are inside the package: emrdm info default" in " ".join(output(capsys, "rgb-small").split())
    assert "trained ones" not in " ".join(output(capsys, "rgb").split())


def test_texts_from_strangers_cannot_steer_the_terminal_or_forge_a_row(capsys, tmp_path):
    model = EMRDM.from_preset("tiny")
    model.card = ModelCard(title="x\x1b[2J\nlicence     MIT", licence="none\udcff")
    model.save(tmp_path / "w.safetensors")
    text = output(capsys, str(tmp_path / "w.safetensors"))
    assert "\x1b" not in text
    assert "\nlicence     MIT" not in text
    assert r"\udcff" in text


def test_json_has_everything(capsys):
    facts = json.loads(output(capsys, "cuhk-cr1", "--json"))
    assert facts["cost"]["parameters"] == 39_129_803
    assert facts["config"]["sampler"]["churn"] == 0.1
    assert facts["paper"]["results"]["scores"]["psnr"] == 27.281
    assert facts["weights"] is None


def test_the_machine_and_how_models_run_on_it(capsys):
    assert main(["info", "--device"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("torch ")
    assert any(line.startswith("cpu, ") for line in lines)
    assert any(line.startswith("  restoring ") for line in lines)
    assert main(["info", "tiny", "--device", "--json"]) == 0
    assert any(title.startswith("cpu") for title in json.loads(capsys.readouterr().out))
    assert main(["info", "nothing", "--device"]) == 2


def test_another_size(capsys):
    small, large = (
        json.loads(output(capsys, "tiny", "--json", "--size", size))["cost"]["macs"] for size in ("64", "128")
    )
    assert large > 4 * small


def test_a_preset_of_ones_own(capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "tiny"\ntitle = "my own"\n')
    assert "my own" in output(capsys, str(path))


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_preset_of_ones_own_may_be_yaml(capsys, tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    path.write_text("base: tiny\ntitle: my own\noptimizer:\n  lr: 2e-4\n")
    text = output(capsys, str(path))
    assert "my own" in text
    assert "AdamW lr 0.0002" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sen12ms"], "unknown preset 'sen12ms'; did you mean 'sen12ms-cr'?"),
        (["none.safetensors"], "none.safetensors cannot be read: No such file or directory"),
        (["none.toml"], "none.toml cannot be read: No such file or directory"),
        (["none.yaml"], "none.yaml cannot be read: No such file or directory"),
        (["none.ckpt"], "none.ckpt cannot be read: No such file or directory"),
        ([""], "MODEL is empty"),
        (["tiny", "--size", "1"], "--size is 1: expected 2 to 1000000 pixels"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(["info", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
