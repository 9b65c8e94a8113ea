"""The loop: what is scored, what is kept, what happens when it is stopped or files are bad."""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from tests.evaluation.folders import opened, rice

from emrdm import EMRDM, load_preset
from emrdm.config import SamplerConfig
from emrdm.data import Batches, Dataset, Numbers, find_layout, open_dataset
from emrdm.data.clouds import STYLES
from emrdm.errors import DataError, InputError
from emrdm.evaluation import (
    BASELINES,
    BaselinePredictor,
    FolderPredictor,
    ModelPredictor,
    Settings,
    evaluate,
    write_report,
)
from emrdm.evaluation.results import picture_name
from emrdm.files import locked
from emrdm.metrics import PROTOCOLS, Scores
from emrdm.networks.fused import cpu


def baselines(dataset):
    return [BaselinePredictor(baseline, dataset.data) for baseline in BASELINES.values()]


def tiny(dataset, seed=0, **sampler):
    model = EMRDM.from_preset("tiny")
    settings = dataclasses.replace(model.config.sampler, method="stochastic", steps=2, **sampler)
    return ModelPredictor(model, dataset, name="tiny", digest="d", sampler=settings, seed=seed)


STANDARD = [PROTOCOLS["standard"]]


@pytest.fixture
def dataset(tmp_path):
    return opened(rice(tmp_path / "rice"))


def test_scores_are_those_of_the_protocol_on_each_image(dataset):
    found = evaluate(dataset, baselines(dataset), [PROTOCOLS["standard"], PROTOCOLS["cuhk"]])
    assert found.images == dataset.names
    assert [method.name for method in found.methods] == ["cloudy-image", "dark-channel"]
    for i, name in enumerate(dataset.names):
        sample = dataset[i]
        for protocol in ("standard", "cuhk"):
            expected = PROTOCOLS[protocol](sample.cloudy, sample.target[None], data=dataset.data)
            for metric, value in found.scores["cloudy-image", protocol].values[name].items():
                assert value == pytest.approx(expected[metric].item(), rel=1e-6)


def test_batch_size_and_workers_change_nothing(dataset):
    alone = evaluate(dataset, [tiny(dataset, churn=1.0)], STANDARD, settings=Settings(batch_size=1))
    together = evaluate(dataset, [tiny(dataset, churn=1.0)], STANDARD, settings=Settings(batch_size=3, workers=2))
    for name in dataset.names:
        for metric, value in alone.scores["model", "standard"].values[name].items():
            assert together.scores["model", "standard"].values[name][metric] == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_an_image_scores_the_same_whatever_else_is_in_the_data_set(dataset):
    whole = evaluate(dataset, [tiny(dataset, churn=1.0)], STANDARD)
    part = evaluate(dataset, [tiny(dataset, churn=1.0)], STANDARD, indices=[2])
    assert part.images == [dataset.names[2]]
    got, expected = (e.scores["model", "standard"].values[dataset.names[2]] for e in (part, whole))
    assert got == pytest.approx(expected, rel=1e-5)


def test_another_seed_gives_other_scores(dataset):
    one, two = (evaluate(dataset, [tiny(dataset, seed)], STANDARD, indices=[0]) for seed in (0, 1))
    assert one.scores["model", "standard"].values != two.scores["model", "standard"].values


def test_masks_give_scores_of_cloudy_and_clear_pixels(tmp_path):
    dataset = opened(rice(tmp_path / "rice", masks=True), "rice2")
    found = evaluate(dataset, baselines(dataset), STANDARD)
    values = found.scores["cloudy-image", "standard"].values[dataset.names[0]]
    assert {"psnr", "psnr/cloudy", "psnr/clear"} <= set(values)
    sample = dataset[0]
    top = (sample.cloudy[0] - sample.target)[:, :24].abs().mean() / 2
    assert values["mae/cloudy"] == pytest.approx(top.item(), abs=1e-6)


# ---------------------------------------------------------------- predictions


def write_predictions(dataset, folder, change=0, skip=(), size=None):
    folder.mkdir()
    for i, name in enumerate(dataset.names):
        if name in skip:
            continue
        pixels = ((dataset[i].target + 1) / 2 * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()
        image = Image.fromarray(np.clip(pixels.astype(int) + change, 0, 255).astype(np.uint8))
        (image.resize(size) if size else image).save(folder / f"{name}.png")
    return folder


def test_perfect_predictions_are_perfect_and_slightly_wrong_ones_slightly_wrong(dataset, tmp_path):
    perfect = FolderPredictor(write_predictions(dataset, tmp_path / "perfect"), dataset)
    found = evaluate(dataset, [perfect], STANDARD)
    assert found.scores["predictions", "standard"].mean("psnr").value == math.inf
    wrong = FolderPredictor(write_predictions(dataset, tmp_path / "wrong", change=1), dataset)
    found = evaluate(dataset, [wrong], STANDARD)
    assert found.scores["predictions", "standard"].mean("mae").value == pytest.approx(1 / 255)
    assert found.subject.kind == "predictions"


def test_a_missing_prediction_stops_or_is_left_out_by_name(dataset, tmp_path):
    gone = dataset.names[1]
    folder = write_predictions(dataset, tmp_path / "p", skip=(gone,))
    predictor = FolderPredictor(folder, dataset)
    with pytest.raises(DataError, match=rf"has no {gone} \(.*\): expected a prediction"):
        evaluate(dataset, [predictor], STANDARD)
    found = evaluate(dataset, [predictor], STANDARD, settings=Settings(on_error="skip"))
    assert gone not in found.scores["predictions", "standard"]
    assert len(found.scores["predictions", "standard"]) == len(dataset) - 1
    assert any(gone in note for note in found.notes)


def test_predictions_of_another_size_or_name_are_refused(dataset, tmp_path):
    small = FolderPredictor(write_predictions(dataset, tmp_path / "small", size=(20, 20)), dataset)
    with pytest.raises(DataError, match="is 20 x 20 pixels: expected 48 x 48"):
        evaluate(dataset, [small], STANDARD)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"has no image of the data set's names, such as 2\.png"):
        FolderPredictor(tmp_path / "none", dataset)


# ---------------------------------------------------------------- bad files


def test_an_unreadable_image_stops_or_is_left_out_by_name(dataset, tmp_path):
    bad = tmp_path / "rice" / "cloud" / f"{dataset.names[1]}.png"
    bad.write_bytes(bad.read_bytes()[:100])
    with pytest.raises(DataError, match=rf"cloud/{dataset.names[1]}\.png is not a whole PNG image"):
        evaluate(dataset, baselines(dataset), STANDARD)
    found = evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(on_error="skip"))
    assert dataset.names[1] not in found.images
    assert len(found.images) == len(dataset) - 1
    assert any(f"{dataset.names[1]}.png" in note for note in found.notes)


def test_when_nothing_can_be_scored_it_says_why(dataset, tmp_path):
    for path in (tmp_path / "rice" / "cloud").iterdir():
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"no image could be scored: .* is empty"):
        evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(on_error="skip"))


# ---------------------------------------------------------------- the journal


def test_a_stopped_run_goes_on_where_it_was(dataset, tmp_path):
    folder, calls = tmp_path / "report", []

    class Counting(BaselinePredictor.__mro__[1]):
        method, data = baselines(dataset)[0].method, dataset.data

        def predict(self, batch):
            calls.append(batch.names)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return batch.cloudy[:, 0]

        def identity(self):
            return {}

    with pytest.raises(KeyboardInterrupt):
        evaluate(dataset, [Counting()], STANDARD, settings=Settings(folder, batch_size=1))
    found = evaluate(dataset, [Counting()], STANDARD, settings=Settings(folder, batch_size=1))
    assert calls == [(name,) for name in [*dataset.names[:3], *dataset.names[2:]]]  # only the interrupted one is redone
    whole = evaluate(dataset, baselines(dataset)[:1], STANDARD, settings=Settings(batch_size=1))
    assert found.scores["cloudy-image", "standard"].values == whole.scores["cloudy-image", "standard"].values


@pytest.mark.parametrize("cut", [1, 5, 40, 300])
def test_a_torn_journal_loses_its_last_line_only(dataset, tmp_path, cut):
    folder = tmp_path / "report"
    whole = evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder, batch_size=1))
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-cut])
    again = evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder, batch_size=1))
    for key, scores in whole.scores.items():
        assert again.scores[key].means() == scores.means()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(lines) == 1 + len(BASELINES) * len(dataset)  # also that a method does not apply


def test_another_run_is_not_mixed_into_a_folder(dataset, tmp_path):
    folder = tmp_path / "report"
    evaluate(dataset, [tiny(dataset, 0)], STANDARD, settings=Settings(folder))
    with pytest.raises(InputError, match=r"holds another evaluation .*seed.* add --overwrite"):
        evaluate(dataset, [tiny(dataset, 1)], STANDARD, settings=Settings(folder))
    evaluate(dataset, [tiny(dataset, 1)], STANDARD, settings=Settings(folder, overwrite=True))


def test_a_second_run_on_the_same_folder_is_refused(dataset, tmp_path):
    folder = tmp_path / "report"
    folder.mkdir()
    with locked(folder, "evaluation"), pytest.raises(InputError, match="in use by another process"):
        evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder))
    evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder))


def test_a_killed_run_goes_on_and_ends_with_the_same_report(tmp_path):
    root = rice(tmp_path / "rice", count=24)
    command = [sys.executable, "-m", "emrdm", "evaluate", "tiny", "rice1", str(root), "--batch-size", "1", "-q"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "-o", str(tmp_path / "whole")], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    journal = tmp_path / "killed" / "journal.jsonl"
    process = subprocess.Popen([*command, "-o", str(tmp_path / "killed")], stderr=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + 60
    while (not journal.exists() or len(journal.read_text().splitlines()) < 6) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = len(journal.read_text().splitlines())
    again = subprocess.run([*command, "-o", str(tmp_path / "killed")], capture_output=True, text=True, env=environment)
    assert again.returncode == 0, again.stderr
    assert 6 <= before < 1 + (1 + len(BASELINES)) * 16
    assert (tmp_path / "killed" / "summary.json").read_text() == (tmp_path / "whole" / "summary.json").read_text()
    assert (tmp_path / "killed" / "scores.csv").read_text() == (tmp_path / "whole" / "scores.csv").read_text()


def test_pictures_and_report_are_written(dataset, tmp_path):
    folder = tmp_path / "report"
    found = evaluate(dataset, [tiny(dataset), *baselines(dataset)], STANDARD, settings=Settings(str(folder)))
    files = write_report(found, str(folder))  # texts are paths, too
    assert [path.name for path in files] == ["report.html", "summary.md", "summary.json", "scores.csv"]
    pictures = {path.name for path in (folder / "pictures").iterdir()}
    assert pictures == {
        f"{name}.{what}.webp" for name in dataset.names for what in ("cloudy", "target", "model", "dark-channel")
    }
    page = (folder / "report.html").read_text("utf-8")
    assert "data:image/webp;base64," in page
    assert "http://" not in page.replace("http://www.w3.org", "")


# ---------------------------------------------------------------- what a model needs


def test_a_model_for_other_bands_is_refused_by_name(dataset):
    model = EMRDM.from_preset("tiny-temporal")
    bands = tuple(dataclasses.replace(band, name=f"x{i}") for i, band in enumerate(model.config.bands))
    model.config = dataclasses.replace(model.config, bands=bands)
    with pytest.raises(InputError, match=r"the model needs x0, .* which the data set has not: it has red, green, blue"):
        ModelPredictor(model, dataset, name="m", digest="d", sampler=SamplerConfig())


def test_a_diverging_model_is_an_error_not_a_score(dataset):
    predictor = tiny(dataset)
    predictor.predict = lambda batch: batch.cloudy[:, 0] * math.nan
    with pytest.raises(Exception, match="tiny gave NaN or infinite values for"):
        evaluate(dataset, [predictor], STANDARD)


def test_scores_survive_their_journal_exactly(dataset, tmp_path):
    folder = tmp_path / "report"
    first = evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder))
    second = evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder))
    for key in first.scores:
        assert first.scores[key].values == second.scores[key].values
        assert isinstance(second.scores[key], Scores)


def test_nothing_to_do_is_said(dataset):
    with pytest.raises(InputError, match="nothing to evaluate"):
        evaluate(dataset, [], STANDARD)


# ---------------------------------------------------------------- what scores depend on


def test_changed_images_are_not_taken_for_the_old_ones(dataset, tmp_path):
    folder, predictions = tmp_path / "report", write_predictions(dataset, tmp_path / "p", change=9)
    settings = Settings(folder)
    evaluate(dataset, [FolderPredictor(predictions, dataset)], STANDARD, settings=settings)
    write_predictions(dataset, tmp_path / "right")
    shutil.rmtree(predictions)
    (tmp_path / "right").rename(predictions)
    with pytest.raises(InputError, match="holds another evaluation"):
        evaluate(dataset, [FolderPredictor(predictions, dataset)], STANDARD, settings=settings)
    target = dataset.items[0].target
    Image.open(target).transpose(Image.Transpose.ROTATE_180).save(target)
    with pytest.raises(InputError, match="holds another evaluation"):
        evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(folder))


def test_other_clouds_are_another_evaluation(tmp_path):
    clear = rice(tmp_path / "rice") / "label"
    folder = tmp_path / "report"
    thin, thick = (
        Dataset(find_layout("synthetic", style=STYLES[style]), clear, split="all") for style in ("thin", "thick")
    )
    evaluate(thin, baselines(thin), STANDARD, settings=Settings(folder))
    with pytest.raises(InputError, match="holds another evaluation"):
        evaluate(thick, baselines(thick), STANDARD, settings=Settings(folder))


def two_bands(dataset):
    """A model for blue and red, in this order, of other ranges."""
    preset = load_preset("tiny").model
    bands = (dataclasses.replace(preset.bands[2], low=-10, high=300), preset.bands[0])
    return EMRDM(dataclasses.replace(preset, bands=bands))


def test_all_methods_are_compared_in_the_bands_that_the_model_restores(dataset):
    model = two_bands(dataset)
    predictor = ModelPredictor(model, dataset, name="two", digest="d", sampler=model.config.sampler)
    found = evaluate(dataset, [predictor, *baselines(dataset)], STANDARD)
    sample = dataset[0]
    expected = (sample.cloudy[0, [2, 0]] - sample.target[[2, 0]]).abs().mean().item() / 2
    values = found.scores["cloudy-image", "standard"].values[sample.name]
    assert values["mae"] == pytest.approx(expected, abs=1e-6)
    assert "lpips" not in values  # two bands are no colours
    assert any("in the bands that the model restores: blue, red" in note for note in found.notes)
    assert found.published == ()


def test_repairs_are_told_again_when_a_run_goes_on(tmp_path):
    (tmp_path / "cloudy").mkdir()
    (tmp_path / "clear").mkdir()
    for kind, value in (("cloudy", 300), ("clear", 90)):
        pixels = np.full((40, 40), value, np.uint16)
        Image.fromarray(pixels).save(tmp_path / kind / "a.png")
    dataset = open_dataset("pairs", tmp_path, split="all", numbers=Numbers(low=0, high=200))
    for _ in range(2):
        found = evaluate(dataset, baselines(dataset)[:1], STANDARD, settings=Settings(tmp_path / "report"))
        assert "in the data: 1,600 values clipped to the range of their band" in found.notes


def test_a_model_for_one_image_refuses_series_by_name(dataset):
    predictor = tiny(dataset)
    batch = next(iter(Batches(dataset, [0])))[0]
    series = dataclasses.replace(batch, cloudy=batch.cloudy.repeat(1, 3, 1, 1, 1))
    with pytest.raises(DataError, match="2 has 3 frames and the model takes one image"):
        predictor.predict(series)


def test_predictions_are_clipped_by_the_protocol_alone(tmp_path):
    for kind in ("cloudy", "clear", "p"):
        (tmp_path / kind).mkdir()
        Image.fromarray(np.full((40, 40), 300 if kind == "p" else 100, np.uint16)).save(tmp_path / kind / "a.png")
    dataset = open_dataset("pairs", tmp_path, split="all", numbers=Numbers(low=0, high=200))
    found = evaluate(dataset, [FolderPredictor(tmp_path / "p", dataset)], [PROTOCOLS["sen12ms-cr"], *STANDARD])
    assert found.scores["predictions", "sen12ms-cr"].mean("mae").value == pytest.approx(1.0)
    assert found.scores["predictions", "standard"].mean("mae").value == pytest.approx(0.5)


def test_eight_bit_predictions_of_deeper_data_are_refused(tmp_path):
    for kind in ("cloudy", "clear", "p"):
        (tmp_path / kind).mkdir()
        dtype = np.uint8 if kind == "p" else np.uint16
        Image.fromarray(np.full((40, 40), 100, dtype)).save(tmp_path / kind / "a.png")
    dataset = open_dataset("pairs", tmp_path, split="all", numbers=Numbers(low=0, high=10000))
    with pytest.raises(DataError, match=r"a\.png has 8 bits: expected numbers as in the data set, 0 to 10000"):
        evaluate(dataset, [FolderPredictor(tmp_path / "p", dataset)], STANDARD)


def test_near_infrared_of_predictions_may_lie_beside_the_colours(tmp_path):
    trees = pytest.importorskip("tests.data.trees", reason="made-up folders need rasterio", exc_type=ImportError)
    dataset = open_dataset("cuhk-cr1", trees.cuhk(tmp_path / "cuhk"))
    four = ((dataset[0].target + 1) / 2 * 255).round().clamp(0, 255).to(torch.uint8).numpy()
    folder = tmp_path / "p"
    (folder / "nir").mkdir(parents=True)
    Image.fromarray(four[:3].transpose(1, 2, 0)).save(folder / "1.png")
    Image.fromarray(four[3]).save(folder / "nir" / "1.png")
    settings = Settings(tmp_path / "report")
    found = evaluate(dataset, [FolderPredictor(folder, dataset)], STANDARD, settings=settings)
    assert found.scores["predictions", "standard"].mean("mae").value < 1e-5  # halves may round either way
    Image.fromarray(255 - four[3]).save(folder / "nir" / "1.png")
    with pytest.raises(InputError, match="files have changed since"):
        evaluate(dataset, [FolderPredictor(folder, dataset)], STANDARD, settings=settings)
    Image.fromarray(four[3][:10]).save(folder / "nir" / "1.png")
    with pytest.raises(DataError, match=r"nir/1\.png is uint8 of 256 x 10 pixels: expected 8 bits and 256 x 256"):
        evaluate(dataset, [FolderPredictor(folder, dataset)], STANDARD)


@pytest.mark.parametrize("content", ["somebody's notes\n", '{"a": 1}\n', "[]\n", '{"identity": 3}\n'])
def test_a_file_that_is_not_ours_is_not_overwritten(dataset, tmp_path, content):
    journal = tmp_path / "report" / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_text(content)
    with pytest.raises(InputError, match=r"journal\.jsonl is not a journal of this program"):
        evaluate(dataset, baselines(dataset), STANDARD, settings=Settings(journal.parent))
    assert journal.read_text() == content


@pytest.mark.parametrize(
    "line", ['{"identity": 3}', '{"image": "2", "method": "m", "scores": [], "repaired": {}}', "{}"]
)
def test_lines_that_make_no_sense_are_passed_over(dataset, tmp_path, line):
    settings = Settings(tmp_path / "report")
    whole = evaluate(dataset, baselines(dataset), STANDARD, settings=settings)
    with (tmp_path / "report" / "journal.jsonl").open("a") as file:
        file.write(line + "\n")
    again = evaluate(dataset, baselines(dataset), STANDARD, settings=settings)
    assert again.scores.keys() == whole.scores.keys()


def test_the_subject_is_the_model_or_else_the_best_baseline(dataset):
    found = evaluate(dataset, baselines(dataset), STANDARD)
    assert found.subject.name == "dark-channel"
    assert evaluate(dataset, [*baselines(dataset), tiny(dataset)], STANDARD).subject.name == "model"
    assert evaluate(dataset, baselines(dataset)[:1], STANDARD).subject.name == "cloudy-image"


def test_names_of_any_length_have_pictures_of_their_own():
    long = "x" * 300
    names = {picture_name(long + end, "model") for end in "abc"} | {picture_name("short", "model")}
    assert len(names) == 4
    assert "short.model.webp" in names
    assert all(len(os.fsencode(name)) <= 200 for name in names)


def test_the_numbers_a_model_computes_with_are_part_of_what_it_is(tmp_path, monkeypatch):
    dataset, model = opened(rice(tmp_path, 12)), EMRDM.from_preset("tiny")
    monkeypatch.setattr(cpu, "faster_dtype", lambda: cpu.Choice(torch.bfloat16, 2.0))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.01)
    fast, exact = (
        ModelPredictor(model, dataset, name="m", digest="d", sampler=model.config.sampler, exact=exact)
        for exact in (False, True)
    )
    assert (fast.identity()["numbers"], exact.identity()["numbers"]) == ("bfloat16", "float32")
    (batch,) = next(iter(Batches(dataset, [0])))
    assert not torch.equal(fast.predict(batch), exact.predict(batch))
