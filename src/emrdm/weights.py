"""Weights that describe themselves: safetensors whose header carries everything but the numbers.

Header entry ``emrdm`` is JSON: the format's version, the whole :class:`~emrdm.config.ModelConfig` (network, process,
preconditioning, noise levels, sampler, bands with units and scaling), the :class:`~emrdm.card.ModelCard`, and a
digest of all tensors. A file that does not hold together is refused with the reason; nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from emrdm import networks
from emrdm.card import ModelCard
from emrdm.config import ModelConfig
from emrdm.errors import ConfigError, WeightsError
from emrdm.files import atomic_path
from emrdm.strict import dump, parse

FORMAT = 1
_KEY = "emrdm"
_LONGEST_HEADER = 1 << 20  # characters; a real one has a few thousand
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Header(NamedTuple):
    """What a file says of itself."""

    config: ModelConfig
    card: ModelCard
    dtype: str
    digest: str


def save(
    path: Path, config: ModelConfig, card: ModelCard, state: Mapping[str, Tensor], *, dtype: torch.dtype = torch.float32
) -> None:
    """Write a weights file; it appears complete, read back and verified, or not at all."""
    from safetensors.torch import save_file

    if dtype not in _DTYPES.values():
        raise WeightsError(f"weights cannot be stored as {dtype}: expected float32, float16 or bfloat16")
    tensors = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in state.items()}
    content = {"format": FORMAT, "config": dump(config), "card": dump(card), "digest": digest(tensors)}
    with atomic_path(Path(path)) as temporary:
        save_file(tensors, temporary, metadata={_KEY: json.dumps(content, allow_nan=False)})
        load(temporary)


def load(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """Header and float32 state of a weights file, verified: names, shapes, digest, no NaN."""
    header = read_header(path)
    with _open(path) as stream:
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a mapping
    if digest(tensors) != header.digest:
        raise WeightsError(
            f"{path}: the tensors do not match the digest in the header: the file is damaged or was edited"
        )
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"{path}: {name} holds NaN or infinite values")
    return header, {name: tensor.float() for name, tensor in tensors.items()}


def read_header(path: Path) -> Header:
    """What the file says of itself, checked against the names, shapes and types of its tensors; no weights are read."""
    with _open(path) as stream:
        content = _content(path, stream.metadata())
        found = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118 - not a mapping
        shapes = {name: tuple(view.get_shape()) for name, view in found.items()}
        dtypes = {view.get_dtype() for view in found.values()}
    try:
        config = parse(ModelConfig, content["config"])
        card = parse(ModelCard, content["card"])
    except ConfigError as error:
        raise WeightsError(f"{path}: the configuration in the header is not valid: {error}") from None
    check_state(f"{path}", config, shapes)
    if len(dtypes) != 1 or not dtypes <= set(_DTYPES):
        raise WeightsError(
            f"{path}: tensors are of type {', '.join(sorted(dtypes))}: expected all F32, all F16 or all BF16"
        )
    return Header(config=config, card=card, dtype=dtypes.pop(), digest=content["digest"])


def check_state(where: str, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a state that is not exactly the network's: nothing missing, nothing extra, every shape right."""
    # Counted first: a hostile configuration must not make us build a huge network, not even an empty one.
    cost = config.cost()
    size = sum(math.prod(shape) for shape in shapes.values())
    expected = expected_shapes(config) if cost.parameters + cost.buffers < 4 * size + 1_000_000 else None
    if expected is None:
        raise WeightsError(f"{where}: {size:,} numbers for a network of {cost.parameters + cost.buffers:,}")
    for name in expected:
        if name not in shapes:
            raise WeightsError(
                f"{where}: {name} is missing ({len(expected.keys() - shapes.keys())} of {len(expected)} tensors are)"
            )
    for name, shape in shapes.items():
        if name not in expected:
            raise WeightsError(
                f"{where}: {name} does not belong to this network ({len(shapes.keys() - expected.keys())} such tensors)"
            )
        if shape != expected[name]:
            raise WeightsError(f"{where}: {name} has shape {shape}: expected {expected[name]}")


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the network, in order."""
    with torch.device("meta"):
        network = networks.build(config.network, config.in_channels, config.out_channels)
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names."""
    result = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        result.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        result.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()


def _content(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    text = (metadata or {}).get(_KEY)
    if text is None:
        raise WeightsError(
            f"{path}: the header has no entry {_KEY!r}: not a model file of this package (published checkpoints: "
            "emrdm convert)"
        )
    try:
        content = json.loads(text) if len(text) <= _LONGEST_HEADER else None
    except (ValueError, RecursionError):
        raise WeightsError(f"{path}: the header entry {_KEY!r} is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise WeightsError(f"{path}: the header entry {_KEY!r} names no format")
    if content["format"] != FORMAT:
        raise WeightsError(f"{path}: format {content['format']}: this version of emrdm reads format {FORMAT}")
    if not {"config", "card", "digest"} <= content.keys():
        raise WeightsError(f"{path}: the header entry {_KEY!r} is incomplete: expected config, card and digest")
    return content


def _open(path: Path) -> Any:
    """Open as safetensors, or say what the file is instead."""
    from safetensors import SafetensorError, safe_open

    try:
        with Path(path).open("rb") as stream:
            start = stream.read(4)
        return safe_open(path, framework="pt")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except SafetensorError as error:
        if start[:2] == b"PK" or start[:1] == b"\x80":
            raise WeightsError(
                f"{path} is a pickle (.ckpt, .pt): it could run code and is not opened; "
                "published checkpoints: emrdm convert"
            ) from None
        raise WeightsError(f"{path} is not a complete safetensors file: {error}") from None
