"""The models that the page offers: the one inside the package, and weights files that were named at the start."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from emrdm import embedded, weights
from emrdm.config import Band, ModelConfig
from emrdm.errors import EmrdmError, InputError
from emrdm.model import EMRDM
from emrdm.wording import brief

_LOG = logging.getLogger(__name__)
_KEPT = 2  # models in memory at one time
_SUFFIX = ".safetensors"


@final
@dataclass(frozen=True)
class Offer:
    """A model to choose.

    Attributes:
        name: what it is called on the page.
        path: of its weights.
        config: what it is; read from the file's header, no weights are.
    """

    name: str
    path: Path
    config: ModelConfig

    @property
    def series(self) -> bool:
        """Whether several images are one series of one place."""
        return self.config.network.multi_temporal

    @property
    def takes(self) -> str:
        """What it restores, in a sentence or two."""
        what = f"{_listed(self.config.bands)}, numbers from {_range(self.config.bands[0])}"
        if self.series:
            text = f"A series of images of one place on different days (trained with {self.config.frames}): {what}."
        else:
            text = f"One image: {what}. Several files are restored one after the other, each by itself."
        return f"{text} It sees auxiliary bands as well: {_listed(self.config.aux)}." if self.config.aux else text


@final
class Shelf:
    """Models by name; loaded when they are first used, and kept while they are in demand."""

    def __init__(self, offers: Sequence[Offer], device: str = "cpu") -> None:
        self.offers = {offer.name: offer for offer in offers}
        self._device = device
        self._loaded: OrderedDict[str, EMRDM] = OrderedDict()
        self._lock = threading.Lock()

    def offer(self, name: object) -> Offer:
        """The model of that name."""
        found = self.offers.get(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"model {str(name)[:80]!r} is not offered: expected one of {', '.join(self.offers)}")
        return found

    def load(self, name: str) -> EMRDM:
        """The model with its weights, on the device."""
        offer = self.offer(name)
        with self._lock:
            if name not in self._loaded:
                while len(self._loaded) >= _KEPT:
                    self._loaded.popitem(last=False)
                self._loaded[name] = EMRDM.load(offer.path).to(self._device)
            self._loaded.move_to_end(name)
            return self._loaded[name]


def offers(files: Sequence[Path] = (), folder: Path | None = None) -> list[Offer]:
    """The default model, weights files by name, and those in a folder.

    A file that was named must be right; one that merely lies in the folder and is not is left out, with a warning.
    """
    default = embedded.default_weights()
    found = [Offer("default (red, green, blue)", default, weights.read_header(default).config)]
    for path in files:
        found.append(_offer(path, found))
    if folder is not None:
        found += _inside(folder, found)
    return found


def _inside(folder: Path, before: Sequence[Offer]) -> list[Offer]:
    if not folder.is_dir():
        raise InputError(f"--models {folder}: expected a folder with weights files (*{_SUFFIX})")
    found: list[Offer] = []
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        if any(path.resolve() == offer.path.resolve() for offer in before):
            continue
        try:
            found.append(_offer(path, [*before, *found], folder))
        except EmrdmError as error:
            _LOG.warning("left out: %s", error)
    if not found:
        raise InputError(f"--models {folder}: no weights file (*{_SUFFIX}) of this program is in it")
    return found


def _offer(path: Path, before: Sequence[Offer], folder: Path | None = None) -> Offer:
    if path.is_dir() and (path / f"model{_SUFFIX}").is_file():  # the folder of a training run
        path = path / f"model{_SUFFIX}"
    header = weights.read_header(path)
    own = path.parent.name if path.stem == "model" else path.stem
    name = own if folder is None else path.relative_to(folder).with_suffix("").as_posix().removesuffix("/model")
    taken = {offer.name for offer in before}
    number = 2
    unique = name = name or own
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    return Offer(unique, path, header.config)


def _listed(bands: Sequence[Band]) -> str:
    return brief([band.name for band in bands], 13)


def _range(band: Band) -> str:
    return f"{band.low:g} to {band.high:g} ({band.unit})"
