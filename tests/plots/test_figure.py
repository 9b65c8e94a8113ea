"""What all figures share."""

import pytest

from emrdm.errors import InputError
from emrdm.plots import save
from emrdm.plots.figure import blank, styled


def small():
    with styled():
        figure = blank(2, 2, "title")
        figure.subplots(1, 1).plot([1, 2])
        return figure


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_each_format_is_what_it_is_called_and_the_same_bytes_each_time(suffix, start, tmp_path):
    for name in "ab":
        save(small(), tmp_path / f"{name}{suffix}")
    content = (tmp_path / f"a{suffix}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"b{suffix}").read_bytes()


def test_another_format_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a\.jpg: expected a name ending in \.png, \.svg, \.pdf"):
        save(small(), tmp_path / "a.jpg")
