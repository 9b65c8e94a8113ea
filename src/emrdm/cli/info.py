"""``emrdm info``: what a preset or a weights file is and costs, or what an image is."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.cli import image_info
from emrdm.errors import ConfigError, InputError, printable

if TYPE_CHECKING:
    from emrdm.card import Results
    from emrdm.config import Band, ModelConfig
    from emrdm.presets import Preset
    from emrdm.weights import Header

HELP = "tell what a preset, a weights file or an image is"
DESCRIPTION = """\
Describe a preset or a weights file: parameters, operations, memory, bands,
sampler, scores, and where the weights come from. Or an image: bands, numbers,
where it lies, and how the default model would read it."""
EXAMPLES = """\
examples:
  emrdm info                        list the presets
  emrdm info default                the trained weights inside the package
  emrdm info sen12ms-cr             a preset by name
  emrdm info my-preset.toml         a preset of your own
  emrdm info weights.safetensors    a weights file
  emrdm info image.tif              an image, and whether the default model fits
  emrdm info --device               this machine, and how models run on it
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="default, name of a preset, a .toml or .yaml preset, a .safetensors weights file, folder of a run, or an "
        "image",
    )
    parser.add_argument(
        "--size", type=int, default=256, metavar="PIXELS", help="side of the image to count for (default: %(default)s)"
    )
    parser.add_argument(
        "--device", action="store_true", help="tell what this machine has, and how models (or MODEL) run on it"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON, for scripts")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Print the answer."""
    if not 2 <= arguments.size <= 1_000_000:
        raise ConfigError(f"--size is {arguments.size}: expected 2 to 1000000 pixels")
    if arguments.device:
        _tell_devices(arguments.model, as_json=arguments.json)
        return
    if arguments.model is None:
        _list_presets(as_json=arguments.json)
        return
    if not arguments.model:
        raise ConfigError("MODEL is empty: expected a preset or a file")
    if image_info.is_image(arguments.model):
        facts = image_info.describe(arguments.model)
        words = _lines(arguments.model, image_info.rows(facts))
        print(json.dumps(facts, indent=2) if arguments.json else words)
        return
    found = _describe(arguments.model, arguments.size)
    print(json.dumps(found.facts(), indent=2) if arguments.json else _render(found))


def _list_presets(*, as_json: bool) -> None:
    from emrdm.presets import load_preset, preset_names

    titles = {name: load_preset(name).title for name in preset_names()}
    if as_json:
        print(json.dumps(titles, indent=2))
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        print(f"{name:{width}}  {title}")
    print("\nemrdm info NAME tells more about one.")
    print("emrdm info default: the trained weights inside the package.")


def _tell_devices(model: str | None, *, as_json: bool) -> None:
    from emrdm.devices import describe_devices

    config = None if model is None else _describe(model, 256).config
    found = describe_devices(config)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for title, rows in found.items():
        print(title)
        for name, text in rows.items():
            start = f"  {name:10}"
            print("\n".join(textwrap.wrap(printable(text), _width(), initial_indent=start, subsequent_indent=" " * 12)))


@dataclass(frozen=True)
class _Described:
    """All there is to say about a model: a preset or the header of a weights file."""

    model: str
    size: int
    config: ModelConfig
    title: str
    preset: Preset | None = None
    header: Header | None = None
    dtype: str | None = None
    digest: str | None = None

    def facts(self) -> dict[str, Any]:
        """As plain data: what --json prints."""
        from emrdm.strict import dump

        weights = None
        if self.header:
            digests = {"digest": self.digest, "file_digest": self.header.digest}
            weights = {**dump(self.header.card), "dtype": self.dtype, **digests}
        return {
            "model": self.model,
            "title": self.title,
            "size": self.size,
            "cost": dump(self.config.cost(self.size, self.size)),
            "config": dump(self.config),
            "train": dump(self.preset.train) if self.preset else None,
            "optimizer": dump(self.preset.optimizer) if self.preset else None,
            "paper": dump(self.preset.paper) if self.preset else None,
            "weights": weights,
        }


def _describe(model: str, size: int) -> _Described:
    """Names of models win over files of the same name; anything else with a suffix or a slash is a file."""
    from emrdm.model import EMRDM
    from emrdm.presets import load_preset, preset_names
    from emrdm.presets.reading import is_preset_file
    from emrdm.weights import read_header, stored_dtype

    if image_info.is_image(model):
        raise InputError(f"{model} is an image: expected a model")
    path = None
    if model == embedded.DEFAULT:
        path = embedded.default_weights()
    elif model not in preset_names():
        if (inside := Path(model) / "model.safetensors").is_file():  # the folder of a run
            model, path = str(inside), inside
        elif Path(model).is_dir():
            raise InputError(f"{model} is a folder without {inside.name}: expected that of a finished run, or a file")
        elif ("." in model or "/" in model) and not is_preset_file(model):
            path = Path(model)
    if path is not None:
        header = read_header(path)
        dtype, digest = stored_dtype(path), EMRDM.load(path).digest()
        return _Described(model, size, header.config, header.card.title, header=header, dtype=dtype, digest=digest)
    preset = load_preset(model)
    return _Described(model, size, preset.model, preset.title, preset=preset)


def _render(found: _Described) -> str:
    rows = [*_network_rows(found), *_method_rows(found.config), *_weight_rows(found)]
    return _lines(f"{found.model}: {found.title}" if found.title else found.model, rows)


def _lines(head: str, rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = [printable(head), ""]
    for name, text in rows:  # texts of a card come from strangers
        start = f"{name:{width}}  "
        lines += textwrap.wrap(printable(text), _width(), initial_indent=start, subsequent_indent=" " * len(start))
    return "\n".join(lines)


def _network_rows(found: _Described) -> list[tuple[str, str]]:
    config, network, cost = found.config, found.config.network, found.config.cost(found.size, found.size)
    paper = found.preset.paper if found.preset else None
    kind = (
        f"multi-temporal, made for {config.frames} frames, takes any number"
        if network.multi_temporal
        else "mono-temporal"
    )
    local = min(network.neighborhood_levels, network.levels)
    image = f"{found.size} x {found.size}" + (f", {config.frames} frames" if config.frames > 1 else "")
    parameters = f" (paper: {paper.parameters_millions:.2f} M)" if paper and paper.parameters_millions else ""
    macs = f" (paper: {paper.macs_giga:.2f})" if paper and paper.macs_giga and found.size == 256 else ""
    return [
        (
            "network",
            f"{kind}; {local} local and {network.levels - local} global levels, "
            f"widths {_list(network.widths)}, depths {_list(network.depths)}, patch {network.patch}",
        ),
        ("parameters", f"{cost.parameters:,}{parameters}"),
        (
            "MACs",
            f"{cost.macs_paper / 1e9:.2f} G in the paper's convention{macs}, "
            f"{cost.macs / 1e9:.2f} G counted fully; one call at {image}",
        ),
        (
            "memory",
            f"{cost.weight_bytes / 1e6:.0f} MB of weights, "
            f"at least {cost.activation_bytes / 1e6:.0f} MB more for one call at {image}, float32",
        ),
    ]


def _method_rows(config: ModelConfig) -> list[tuple[str, str]]:
    sampler, factors, noise = config.sampler, config.preconditioning, config.training_noise
    s = f"s = 1 / (1 + {config.process.alpha:g} t)" if config.process.alpha else "s = 1"
    churn = (
        f", churn {sampler.churn:g}, noise {sampler.noise:g}, t in {sampler.t_min:g} .. {sampler.t_max:g}"
        if sampler.churn
        else ""
    )
    rows = [
        ("restores", _bands(config.bands)),
        ("process", f"{s}, sigma = t"),
        (
            "scaling",
            f"sigma_data {factors.sigma_data:g}, sigma_mu {factors.sigma_mu:g}, sigma_cov {factors.sigma_cov:g}",
        ),
        ("noise", f"ln sigma ~ N({noise.p_mean:g}, {noise.p_std:g}^2) in training"),
        (
            "sampler",
            f"{sampler.method}, {sampler.steps} steps, "
            f"sigma {sampler.sigma_max:g} .. {sampler.sigma_min:g}, rho {sampler.rho:g}{churn}",
        ),
    ]
    if config.aux:
        rows.insert(1, ("sees also", _bands(config.aux)))
    return rows


def _weight_rows(found: _Described) -> list[tuple[str, str]]:
    rows = []
    if found.preset:
        train, optimizer = found.preset.train, found.preset.optimizer
        recipe = [
            f"{train.steps:,} steps",
            f"batch {train.batch_size} x {train.gpus} GPU",
            f"{optimizer.title} lr {optimizer.lr:g}",
            f"weight decay {optimizer.weight_decay:g}",
            f"EMA {optimizer.ema_decay:g}",
            train.precision,
        ]
        rows.append(("training", ", ".join(recipe)))
        if found.preset.paper:
            rows.append(("paper", _scores(found.preset.paper.results)))
        trained = "; trained ones are inside the package: emrdm info default" if found.model == embedded.PRESET else ""
        rows.append(("weights", f"none: a preset is a recipe; its weights start at random{trained}"))
    if found.header:
        card = found.header.card
        rows += [("weights", f"{card.source}; stored as {found.dtype}"), ("licence", card.licence)]
        if card.training:
            rows.append(("trained on", card.training))
        rows += [("scores", _scores(results)) for results in card.results]
        rows.append(("digest", f"{found.digest}, as in the tags of what it restores"))
    return rows


def _width() -> int:
    """Columns of text: those of the terminal, but no more than can be read."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 100)


def _scores(results: Results) -> str:
    """Those that have a better end, with no more digits than mean something."""
    from emrdm.metrics.protocols import METRICS, Metric

    told = {METRICS.get(name, Metric(name.upper(), "higher", 6)): value for name, value in results.scores.items()}
    scores = ", ".join(
        f"{metric.label} {round(value, metric.digits):g}" for metric, value in told.items() if metric.better
    )
    return f"{scores} on {results.dataset}, protocol {results.protocol} ({results.source})"


def _bands(bands: tuple[Band, ...]) -> str:
    """Names in order, each run of bands with the same scaling followed by it."""
    parts: list[str] = []
    for i, band in enumerate(bands):
        following = bands[i + 1] if i + 1 < len(bands) else None
        scaling = (band.unit, band.low, band.high, band.clip)
        same = following is not None and scaling == (following.unit, following.low, following.high, following.clip)
        parts.append(
            band.name
            if same
            else f"{band.name} [{band.unit}, {band.low:g} .. {band.high:g}{', clipped' if band.clip else ''}]"
        )
    return ", ".join(parts)


def _list(values: tuple[int, ...]) -> str:
    return " ".join(map(str, values))
