"""Reports as text."""

import pytest
from tests.bench.small import measured, report

from emrdm.bench import as_markdown, as_text
from emrdm.bench.results import Difference, Row
from emrdm.bench.tables import COLUMNS, time


def test_the_table_has_its_columns_and_fits():
    text = as_text(report())
    heading = next(line for line in text.splitlines() if line.startswith("case"))
    assert heading.split("  ")[0] == COLUMNS[0]
    for name in ("gather", *COLUMNS[2:]):
        assert name in heading
    assert max(len(line) for line in text.splitlines() if not line.startswith("repeat")) <= 100


def test_a_row_says_times_ratio_memory_and_accuracy():
    lines = as_text(report()).splitlines()
    row = next(line for line in lines if line.startswith("forward"))
    for part in ("500 ms", "100 ms", "5.0x", "10 MB -> 10 MB", "61.2 dB"):
        assert part in row
    assert "2 img/s" in next(line for line in lines if line.startswith("best"))
    assert next(line for line in lines if line.startswith("training")).split("4")[1].split()[0] == "-"


def test_machine_path_and_command_are_told():
    lines = as_text(report(busy="9 processes")).splitlines()
    assert "machine: a machine, 2 threads" in lines
    assert "ours: CPU: plain network" in lines
    assert lines[-1] == "repeat: emrdm bench tiny"
    assert "left out: training: not here" in lines
    assert "warning: 9 processes" in lines
    assert "flex, float32: no GPU" in lines


def test_what_is_not_accurate_enough_is_marked():
    bad = Row("forward", "forward", measured(), measured(), difference=Difference(43.21, 0.1))
    assert "43.2 dB (!)" in as_text(report(rows=(bad,)))


def test_back_ends_are_compared_in_their_own_table():
    row = next(line for line in as_text(report()).splitlines() if line.startswith("tiled"))
    assert row.split()[2:] == ["100", "ms", "4.0x", "300", "ms", "4.0x", "10", "MB", "0e+00"]


def test_markdown_tables_are_whole():
    for block in as_markdown(report()).split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1
    assert "| forward, batch 1 | 500 ms | 100 ms | 5.0x |" in as_markdown(report())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(123.4, "123 s"), (1.234, "1.23 s"), (0.1234, "123 ms"), (0.001234, "1.23 ms"), (2e-5, "20 us")],
)
def test_times_have_three_digits(seconds, text):
    assert time(seconds) == text
