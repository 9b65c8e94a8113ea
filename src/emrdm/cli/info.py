"""``emrdm info``: what a preset or a weights file is and costs."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.errors import ConfigError

if TYPE_CHECKING:
    from emrdm.card import Results
    from emrdm.config import Band, ModelConfig
    from emrdm.presets import Preset
    from emrdm.weights import Header

HELP = "what a preset or a weights file is and costs"
DESCRIPTION = """\
Describe a preset or a weights file: parameters, operations, memory, bands,
sampler, scores, and where the weights come from."""
EXAMPLES = """\
examples:
  emrdm info                        list the presets
  emrdm info sen12ms-cr             a preset by name
  emrdm info my-preset.toml         a preset of your own
  emrdm info weights.safetensors    a weights file
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="name of a preset, a .toml preset, or a .safetensors weights file"
    )
    parser.add_argument(
        "--size", type=int, default=256, metavar="PIXELS", help="side of the image to count for (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def run(arguments: argparse.Namespace) -> None:
    """Print the answer."""
    if not 2 <= arguments.size <= 1_000_000:
        raise ConfigError(f"--size is {arguments.size}: expected 2 to 1000000 pixels")
    if arguments.model is None:
        _list_presets(as_json=arguments.json)
        return
    facts = _facts(arguments.model, arguments.size)
    print(json.dumps(facts, indent=2) if arguments.json else _render(facts))


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


def _facts(model: str, size: int) -> dict[str, Any]:
    """Everything known of a model, as plain data: what --json prints."""
    from emrdm.presets import load_preset
    from emrdm.strict import dump
    from emrdm.weights import read_header

    preset: Preset | None = None
    header: Header | None = None
    if model.endswith(".toml") or (not Path(model).exists() and not model.endswith(".safetensors")):
        preset = load_preset(model)
        config, title = preset.model, preset.title
    else:
        header = read_header(Path(model))
        config, title = header.config, header.card.title
    return {
        "model": model,
        "title": title,
        "size": size,
        "cost": dump(config.cost(size, size)),
        "config": dump(config),
        "training": dump(preset.training) if preset else None,
        "paper": dump(preset.paper) if preset else None,
        "weights": {**dump(header.card), "dtype": header.dtype, "digest": header.digest} if header else None,
    }


def _render(facts: dict[str, Any]) -> str:
    from emrdm.config import ModelConfig
    from emrdm.strict import parse

    config = parse(ModelConfig, facts["config"])
    rows = [*_network_rows(config, facts), *_method_rows(config), *_weight_rows(facts)]
    width = max(len(name) for name, _ in rows)
    lines = [f"{facts['model']}: {facts['title']}" if facts["title"] else facts["model"], ""]
    for name, text in rows:
        lines += textwrap.wrap(text, 100, initial_indent=f"{name:{width}}  ", subsequent_indent=" " * (width + 2))
    return "\n".join(lines)


def _network_rows(config: ModelConfig, facts: dict[str, Any]) -> list[tuple[str, str]]:
    network, cost, paper = config.network, facts["cost"], facts["paper"]
    kind = (
        f"multi-temporal, made for {config.frames} frames, takes any number"
        if network.multi_temporal
        else "mono-temporal"
    )
    local = min(network.neighborhood_levels, network.levels)
    image = f"{facts['size']} x {facts['size']}" + (f", {config.frames} frames" if config.frames > 1 else "")
    paper_parameters = (
        f" (paper: {paper['parameters_millions']:.2f} M)" if paper and paper["parameters_millions"] else ""
    )
    paper_macs = f" (paper: {paper['macs_giga']:.2f})" if paper and paper["macs_giga"] and facts["size"] == 256 else ""
    return [
        (
            "network",
            f"{kind}; {local} local and {network.levels - local} global levels, "
            f"widths {_list(network.widths)}, depths {_list(network.depths)}, patch {network.patch}",
        ),
        ("parameters", f"{cost['parameters']:,}{paper_parameters}"),
        (
            "MACs",
            f"{cost['macs_paper'] / 1e9:.2f} G in the paper's convention{paper_macs}, "
            f"{cost['macs'] / 1e9:.2f} G counted fully; one call at {image}",
        ),
        (
            "memory",
            f"{cost['weight_bytes'] / 1e6:.0f} MB of weights, "
            f"about {cost['activation_bytes'] / 1e6:.0f} MB more for one call at {image}, float32",
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


def _weight_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    from emrdm.card import Results

    training, paper, card = facts["training"], facts["paper"], facts["weights"]
    rows = []
    if training:
        recipe = [
            f"{training['steps']:,} steps",
            f"batch {training['batch_size']} x {training['gpus']} GPU",
            f"AdamW lr {training['learning_rate']:g}",
            f"weight decay {training['weight_decay']:g}",
            f"EMA {training['ema_decay']:g}",
            training["precision"],
        ]
        rows.append(("training", ", ".join(recipe)))
    if paper:
        rows.append(("paper", _scores(Results(**paper["results"]))))
    if card is None:
        rows.append(("weights", "none: a preset is a recipe; its weights start at random"))
        return rows
    rows.append(("weights", f"{card['source']}; stored as {card['dtype']}"))
    rows.append(("licence", card["licence"]))
    if card["training"]:
        rows.append(("trained on", card["training"]))
    rows += [("scores", _scores(Results(**results))) for results in card["results"]]
    rows.append(("digest", card["digest"]))
    return rows


def _scores(results: Results) -> str:
    scores = ", ".join(f"{name.upper()} {value:g}" for name, value in results.scores.items())
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
