"""The day an image was taken."""

from datetime import date

import pytest

from emrdm.rasters.dates import date_of, first_day


@pytest.mark.parametrize(
    "text",
    ["2024-05-01", "x_2024_05_01.tif", "20240501", "S2A_MSIL1C_20240501T103031_N0510_R108_T32TQM_20240502T123456",
     "LC08_L1TP_224078_20240501_20240820_02_T1", "2024:05:01 10:30:31", "2024-02-30 and 2024-05-01"],
)  # fmt: skip
def test_days_are_found_in_texts(text):
    assert first_day(text) == date(2024, 5, 1)


@pytest.mark.parametrize("text", ["", "x", "p839", "123456789", "20241301", "2024-0501", "12024050100", "0001-05-01"])
def test_other_numbers_are_no_days(text):
    assert first_day(text) is None


def test_metadata_on_the_taking_come_before_the_name_and_when_the_file_was_made_is_no_date():
    tags = {"TIFFTAG_DATETIME": "2030:01:01 00:00:00", "Acquisition_Date": "2020-02-02"}
    assert date_of(tags, "x_20240501") == date(2020, 2, 2)
    del tags["Acquisition_Date"]
    assert date_of(tags, "x_20240501") == date(2024, 5, 1)
    assert date_of(tags, "x") is None
    assert date_of({}, "x") is None
