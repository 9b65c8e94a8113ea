"""Weights that describe themselves: safetensors whose header carries everything but the numbers.

Header entry ``emrdm`` is JSON: the format's version, the whole :class:`~emrdm.config.ModelConfig` (network, process,
preconditioning, noise levels, sampler, bands with units and scaling), the :class:`~emrdm.card.ModelCard`, and a
digest of both and of all tensors. A file that does not hold together is refused with the reason; nothing in it is
ever executed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from emrdm import networks
from emrdm.card import ModelCard
from emrdm.config import ModelConfig
from emrdm.errors import ConfigError, EmrdmError, WeightsError
from emrdm.files import atomic_path, why_unreadable
from emrdm.strict import dump, parse

FORMAT = 1
_KEY = "emrdm"
_LONGEST_HEADER = 1 << 20  # characters; a real one has a few thousand
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@final
@dataclass(frozen=True)
class Header:
    """What a file says of itself."""

    format: int
    config: ModelConfig
    card: ModelCard
    digest: str


def save(
    path: Path,
    config: ModelConfig,
    card: ModelCard,
    state: Mapping[str, Tensor],
    *,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a weights file; it appears complete, read back and verified, or not at all.

    ``dtype`` is that of the parameters; the few buffers, frequencies of embeddings, stay float32.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if dtype not in _DTYPES.values():
        raise WeightsError(f"weights cannot be stored as {dtype}: expected float32, float16 or bfloat16")
    buffers = buffer_names(config)
    tensors = {
        name: tensor.detach().to("cpu", torch.float32 if name in buffers else dtype).contiguous()
        for name, tensor in state.items()
    }
    check_values(f"{path}, as {dtype},", tensors)
    header = Header(format=FORMAT, config=config, card=card, digest=digest(config, card, tensors))
    try:
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata={_KEY: json.dumps(dump(header), allow_nan=False)})
            load(temporary)
    except (OSError, SafetensorError) as error:  # such as a full disk
        needed = sum(tensor.nbytes for tensor in tensors.values())
        reason = getattr(error, "strerror", None) or error
        raise EmrdmError(f"{path} could not be written, {needed:,} bytes are needed: {reason}") from None


def load(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """Header and float32 state of a weights file, verified: names, shapes, digest, no NaN."""
    header = read_header(path)
    with _open(path) as stream:
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a mapping
    if digest(header.config, header.card, tensors) != header.digest:
        raise WeightsError(f"{path}: the content does not match the digest in the header: it is damaged or was edited")
    check_values(f"{path}:", tensors)
    # Copies, since views into the file lie anywhere, and sums of the CPU depend on where numbers lie in memory.
    return header, {name: tensor.to(torch.float32, copy=True) for name, tensor in tensors.items()}


def read_header(path: Path) -> Header:
    """What the file says of itself, checked against the names, shapes and types of its tensors; no weights are read."""
    with _open(path) as stream:
        header = _header(path, stream.metadata())
        views = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118 - not a mapping
        shapes = {name: tuple(view.get_shape()) for name, view in views.items()}
        dtypes = {name: view.get_dtype() for name, view in views.items()}
    check_state(f"{path}", header.config, shapes)
    buffers = buffer_names(header.config)
    kinds = {dtype for name, dtype in dtypes.items() if name not in buffers}
    if len(kinds) != 1 or not kinds <= set(_DTYPES) or any(dtypes[name] != "F32" for name in buffers):
        raise WeightsError(
            f"{path}: tensors are of type {', '.join(sorted(set(dtypes.values())))}: "
            "expected parameters all of F32, F16 or BF16, and buffers of F32"
        )
    return header


def stored_dtype(path: Path) -> str:
    """Type of the parameters in a file: F32, F16 or BF16."""
    with _open(path) as stream:
        return str(stream.get_slice("patch_in.proj.weight").get_dtype())


def check_values(where: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that hold NaN or infinity."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"{where} {name} holds NaN or infinite values")


def check_state(where: str, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a state that is not exactly the network's: nothing missing, nothing extra, every shape right."""
    # Counted first: a hostile configuration must not make us build a huge network, not even an empty one.
    cost = config.cost()
    size = sum(math.prod(shape) for shape in shapes.values())
    if cost.parameters + cost.buffers > 4 * size + 1_000_000:
        raise WeightsError(f"{where}: {size:,} numbers for a network of {cost.parameters + cost.buffers:,}")
    expected = expected_shapes(config)
    for name in expected:
        if name not in shapes:
            missing = len(expected.keys() - shapes.keys())
            raise WeightsError(f"{where}: {name} is missing ({missing} of {len(expected)} tensors are)")
    for name, shape in shapes.items():
        if name not in expected:
            extra = len(shapes.keys() - expected.keys())
            raise WeightsError(f"{where}: {name} does not belong to this network ({extra} such tensors)")
        if shape != expected[name]:
            raise WeightsError(f"{where}: {name} has shape {shape}: expected {expected[name]}")


def buffer_names(config: ModelConfig) -> set[str]:
    """Names of the tensors that are stored but not learned."""
    network = networks.build_empty(config.network, config.in_channels, config.out_channels)
    return {name for name, _ in network.named_buffers()}


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the network, in order."""
    network = networks.build_empty(config.network, config.in_channels, config.out_channels)
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def digest(config: ModelConfig, card: ModelCard, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the configuration, the card, and names, types, shapes and bytes in the order of the names."""
    result = hashlib.sha256(json.dumps([dump(config), dump(card)], sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        result.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        result.update(tensor.cpu().reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()


def identity(config: ModelConfig, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of what a model computes: configuration and weights as single precision, whatever file they lie in."""
    result = hashlib.sha256(json.dumps(dump(config), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().to("cpu", torch.float32).contiguous()
        result.update(f"{name} {tuple(tensor.shape)}\n".encode())
        result.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()


def _header(path: Path, metadata: Mapping[str, str] | None) -> Header:
    text = (metadata or {}).get(_KEY)
    if text is None:
        raise WeightsError(
            f"{path}: the header has no entry {_KEY!r}: "
            "not a model file of this package (published checkpoints: emrdm convert)"
        )
    if len(text) > _LONGEST_HEADER:
        raise WeightsError(f"{path}: the header entry {_KEY!r} has {len(text):,} characters: expected a few thousand")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):  # also a number of too many digits
        raise WeightsError(f"{path}: the header entry {_KEY!r} is not JSON") from None
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is not int:
        raise WeightsError(f"{path}: the header entry {_KEY!r} names no format")
    if version != FORMAT:
        raise WeightsError(f"{path}: format {version}: this version of emrdm reads format {FORMAT}")
    try:
        return parse(Header, content)
    except ConfigError as error:
        raise WeightsError(f"{path}: the header is not valid: {error}") from None


def _open(path: Path) -> Any:
    """Open as safetensors, or say what the file is instead."""
    from safetensors import SafetensorError, safe_open

    reason = why_unreadable(path)
    if reason is not None:
        raise WeightsError(f"{path} cannot be read: {reason}")
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        with path.open("rb") as stream:
            start = stream.read(2)
        if start == b"PK" or start[:1] == b"\x80":
            raise WeightsError(
                f"{path} is a pickle (.ckpt, .pt): it could run code and is not opened; "
                "published checkpoints: emrdm convert"
            ) from None
        raise WeightsError(f"{path} is not a complete safetensors file: {error}") from None
