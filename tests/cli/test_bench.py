"""emrdm bench."""

import json

import pytest

from emrdm import EMRDM
from emrdm.bench import Effort, read
from emrdm.cli import bench as verb
from emrdm.cli import main

SMALL = ("tiny", "--device", "cpu", "--size", "16", "--quick", "--cases", "sampling")


def test_a_table_that_can_be_repeated(capsys, tmp_path):
    assert main(["bench", *SMALL, "--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "plots")]) == 0
    out, err = capsys.readouterr()
    assert "sampling, 4 steps, batch 1" in out
    for column in ("gather", "ours", "ratio", "memory", "accuracy"):
        assert column in out
    assert "repeat: emrdm bench tiny --device cpu --cases sampling --size 16 --quick" in out
    assert "measuring sampling, 4 steps, batch 1: ours" in err
    assert read(tmp_path / "a.json").rows[0].ratio == json.loads((tmp_path / "a.json").read_text())["rows"][0]["ratio"]
    assert (tmp_path / "plots" / "ratios.png").is_file()


def test_numbers_alone_for_scripts(capsys):
    assert main(["bench", *SMALL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"][0]["ratio"] > 0
    assert "measuring sampling" in err


def test_a_model_behind_json_is_not_taken_for_a_file(capsys):
    assert main(["bench", "--json", "rgb-small"]) == 2
    assert "expected a name ending in .json, or the model in front of --json" in capsys.readouterr().err


def test_the_command_that_is_printed_says_the_same(capsys):
    assert main(["bench", *SMALL, "--batch", "2", "--steps", "3", "--baseline", "tiled", "-q"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "--steps 3 --size 16 --batch 2 --baseline tiled --quick" in out
    assert "sampling, 3 steps, batch 2" in out
    assert "tiled attention" in out


def test_weights_of_ones_own(capsys, tmp_path):
    EMRDM.from_preset("tiny").save(tmp_path / "model.safetensors")
    for name in (tmp_path / "model.safetensors", tmp_path):
        assert main(["bench", str(name), *SMALL[1:]]) == 0
        assert "weights: " + str(tmp_path / "model.safetensors") in " ".join(capsys.readouterr().out.split())


def test_a_result_that_is_not_accurate_fails_in_one_line(capsys, monkeypatch, tmp_path):
    real = EMRDM.sample

    def wrong(self, cloudy, *arguments, exact=False, **options):
        return real(self, cloudy, *arguments, exact=exact, **options) + (0.0 if exact else 0.02)

    monkeypatch.setattr(EMRDM, "sample", wrong)
    assert main(["bench", *SMALL, "-q", "--json", str(tmp_path / "a.json")]) == 1
    out, err = capsys.readouterr()
    assert "40.0 dB (!)" in out
    assert err == (
        "emrdm bench: sampling, 4 steps, batch 1: the fast path is 40.0 dB from the float32 reference, "
        "expected 50 dB at least\n"
    )
    assert (tmp_path / "a.json").is_file()  # what was measured is kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sen12ms"], "unknown preset 'sen12ms'; did you mean 'sen12ms-cr'?"),
        (["none.safetensors"], "none.safetensors cannot be read: No such file or directory"),
        ([""], "PRESET|WEIGHTS is empty"),
        (["tiny", "--cases", "sampeling"], "--cases: unknown case 'sampeling'; did you mean 'sampling'?"),
        (["tiny", "--size", "17"], "--size is 17: expected a multiple of 4 from 16 to 8192 for tiny"),
        (["tiny", "--batch", "0"], "--batch is 0: expected 1 to 4096"),
        (["tiny", "--repeats", "0"], "--repeats is 0: expected 1 to 4096"),
        (["tiny", "--steps", "-1"], "--steps is -1: expected 1 to 1000"),
        (["tiny", "--baseline", "flex"], "--baseline flex on a CPU: expected gather or tiled"),
        (["tiny", "--cases", "frames"], "expected a multi-temporal model"),
        (["tiny", "--json", "no/such/folder/a.json"], "there is no folder no/such/folder"),
        (["tiny", "--plot", __file__], "is a file: expected a folder for figures"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(["bench", *arguments, "--device", "cpu", "-q"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_defaults_of_a_cpu(monkeypatch):
    asked = []
    monkeypatch.setattr("emrdm.bench.bench", lambda *values, **options: asked.append((values, options)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["bench", "--device", "cpu", "-q"])
    ((name, _, settings), options) = asked[0]
    assert name == "rgb-small"
    assert settings.cases == ("forward", "sampling", "attention")
    assert settings.effort == Effort(20, verb._SECONDS["cpu"])
    assert options["recipe"].title


def test_without_matplotlib_there_are_no_figures_and_a_line(capsys, monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", *SMALL, "-q", "--plot", str(tmp_path)]) == 0
    assert "no figures: plots need matplotlib" in capsys.readouterr().err
