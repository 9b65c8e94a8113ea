"""The day an image was taken, by its metadata or its name; never by the file's time, which copying changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date

_TAKEN = (
    "ACQUISITION_DATE",
    "DATE_ACQUIRED",
    "ACQUISITIONDATE",
    "ACQUISITION_DATETIME",
    "ACQUISITION_TIME",
    "SENSING_TIME",
    "SENSING_DATE",
    "DATATAKE_1_DATATAKE_SENSING_START",
    "PRODUCT_START_TIME",
    "SYSTEM:TIME_START",
    "DATETIME",
    "DATE",
)
_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_:/.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d)")


def date_of(tags: Mapping[str, str], stem: str) -> date | None:
    """The day by the metadata that says so, else by the file's name without suffix.

    TIFF's own DATETIME is when the file was made: a whole series may have been made on one day.
    """
    upper = {key.upper(): value for key, value in tags.items()}
    texts = (*(upper.get(key, "") for key in _TAKEN), stem)
    return next((day for text in texts if (day := first_day(text)) is not None), None)


def first_day(text: str) -> date | None:
    """The first day in a text, written as 2024-05-01, 2024_05_01, 2024:05:01 or 20240501."""
    for year, _, month, day in _DAY.findall(text):
        try:
            return date(int(year), int(month), int(day))
        except ValueError:  # 30 February
            continue
    return None
