"""All data sets by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emrdm.data.bands import SENTINEL2, backscatter, eight_bit, reflectance
from emrdm.data.cuhk import Cuhk
from emrdm.data.dataset import Dataset
from emrdm.data.folders import Numbers
from emrdm.data.layout import Layout
from emrdm.data.pairs import Pairs
from emrdm.data.rice import Rice
from emrdm.data.sen2_mtc_new import Sen2MtcNew
from emrdm.data.sen12ms_cr import Sen12msCr
from emrdm.data.series import Series
from emrdm.data.synthetic import Synthetic
from emrdm.errors import InputError
from emrdm.files import as_path
from emrdm.strict import nearest

CATALOG: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Cuhk(
            "cuhk-cr1",
            "CUHK-CR1: thin cloud, Jilin-1 at 0.5 m, RGB and near infrared",
            eight_bit("red", "green", "blue", "nir"),
            protocols=("cuhk", "standard"),
            expected={"train": 534, "test": 134},
            rules=("by-name", "by-rank"),
            homepage="https://github.com/littlebeen/DDPM-Enhancement-for-Cloud-Removal",
            part="CUHK-CR1",
        ),
        Cuhk(
            "cuhk-cr2",
            "CUHK-CR2: thick cloud, Jilin-1 at 0.5 m, RGB and near infrared",
            eight_bit("red", "green", "blue", "nir"),
            protocols=("cuhk", "standard"),
            expected={"train": 448, "test": 111},
            rules=("by-name", "by-rank"),
            homepage="https://github.com/littlebeen/DDPM-Enhancement-for-Cloud-Removal",
            part="CUHK-CR2",
        ),
        Sen12msCr(
            "sen12ms-cr",
            "SEN12MS-CR: Sentinel-2 with 13 bands, cloudy and clear, with Sentinel-1",
            reflectance(*SENTINEL2),
            backscatter("VV", "VH"),
            levels=10000,
            protocols=("sen12ms-cr", "standard"),
            expected={"train": 114050, "val": 7176, "test": 7899},
            own_validation=True,
            rules=("strict", "paper"),
            homepage="https://patricktum.github.io/cloud_removal/sen12mscr",
        ),
        Sen2MtcNew(
            "sen2-mtc-new",
            "Sen2_MTC_New: three cloudy Sentinel-2 dates and a clear one, RGB and near infrared",
            reflectance("B4", "B3", "B2", clip=False),
            reflectance("B8", clip=False),
            frames=3,
            levels=10000,
            protocols=("sen2-mtc-new", "standard"),
            expected={"train": 2380, "val": 350, "test": 687},
            own_validation=True,
            augmentation="flips-and-turns",
            homepage="https://github.com/come880412/CTGAN",
        ),
        Rice(
            "rice1",
            "RICE1: thin cloud and haze, Google Earth, RGB",
            eight_bit("red", "green", "blue"),
            expected={"all": 500},
            homepage="https://github.com/BUPTLdy/RICE_DATASET",
        ),
        Rice(
            "rice2",
            "RICE2: thick cloud, Landsat 8, RGB, with masks",
            eight_bit("red", "green", "blue"),
            expected={"all": 736},
            homepage="https://github.com/BUPTLdy/RICE_DATASET",
        ),
        Pairs("pairs", "a folder of your own pairs of cloudy and clear images", ()),
        Series("series", "a folder of your own dated series, with or without cloud masks", ()),
        Synthetic(
            "synthetic", "a folder of your own clear images, clouds are drawn over them", (), augmentation="dihedral"
        ),
    )
}


def find_layout(name: str, **changes: Any) -> Layout:
    """A data set's description by name, with something changed, such as ``numbers`` for a folder of one's own."""
    if name not in CATALOG:
        raise InputError(f"unknown data set {name!r}{nearest(name.lower(), CATALOG)}")
    layout = CATALOG[name]
    fields = {field.name for field in dataclasses.fields(layout)}
    for key in changes:
        if key not in fields:
            option = {"numbers": "--bands or --range", "style": "--clouds"}.get(key, key)
            raise InputError(f"{name} takes no {option}: its images are what they are")
    return dataclasses.replace(layout, **changes)


def open_dataset(
    name: str,
    root: str | Path,
    *,
    split: str = "test",
    numbers: Numbers | None = None,
    **options: Any,
) -> Dataset:
    """Open a folder as a data set.

    Args:
        name: one of the catalogue, see ``emrdm data list``.
        root: the folder.
        split: train, val, test or all.
        numbers: bands and range of a folder of one's own.
        options: of :class:`~emrdm.data.dataset.Dataset`.

    Returns:
        the data set; indexing it gives samples.
    """
    changes: dict[str, Any] = {} if numbers is None else {"numbers": numbers}
    if name == "synthetic":  # as many frames as asked for are drawn
        changes |= {"frames": options.get("frames") or 1}
    return Dataset(find_layout(name, **changes), as_path(root, "ROOT"), split=split, **options)
