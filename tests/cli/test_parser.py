"""Mistakes in one line with what may have been meant, and help that reads well."""

import argparse

import pytest

from emrdm.cli import build_parser, main
from emrdm.cli.parser import Parser


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("inof", "emrdm: unknown verb 'inof'; did you mean 'info'? (see emrdm --help)"),
        ("data lsit", "emrdm data: unknown task 'lsit'; did you mean 'list'? (see emrdm data --help)"),
        ("--verison", "emrdm: unknown option --verison; did you mean '--version'? (see emrdm --help)"),
        ("info --siz=3", "emrdm info: unknown option --siz; did you mean '--size'? (see emrdm info --help)"),
        ("info --zzzzzzz", "emrdm info: unknown option --zzzzzzz (see emrdm info --help)"),
        # not that --output is missing
        ("convert a.ckpt --outptu b", "emrdm convert: unknown option --outptu; did you mean '--output'? (see emrdm convert --help)"),
        ("train tiny --device cudda", "emrdm train: argument --device: found 'cudda'; did you mean 'cuda'? (see emrdm train --help)"),
        ("info tiny rgb", "emrdm info: cannot make sense of rgb (see emrdm info --help)"),
        ("info -x", "emrdm info: cannot make sense of -x (see emrdm info --help)"),
    ],
)  # fmt: skip
def test_what_is_misspelt_is_told_with_the_nearest_name(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words.split())
    assert caught.value.code == 2
    assert capsys.readouterr().err == message + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "two"], "p: argument --size: found 'two': expected a whole number (see p --help)"),
        (["--size", "2.5"], "p: argument --size: found '2.5': expected a whole number (see p --help)"),
        (["--share", "half\n"], r"p: argument --share: found 'half\n': expected a number (see p --help)"),
        (["--odd", "2"], "p: argument --odd: 2 is even (see p --help)"),
    ],
)
def test_what_is_no_number_is_told_in_plain_words(words, message, capsys):
    def odd(text):
        raise argparse.ArgumentTypeError(f"{text} is even")

    parser = Parser(prog="p")
    for name, kind in (("--size", int), ("--share", float), ("--odd", odd)):
        parser.add_argument(name, type=kind)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err == message + "\n"


def test_what_stands_behind_two_dashes_is_no_option(capsys):
    assert main(["info", "--", "--size"]) == 2
    assert "unknown preset '--size'" in capsys.readouterr().err


def test_the_summary_names_what_is_required():
    parser = Parser(prog="p")
    parser.add_argument("image", metavar="IMAGE", nargs="+")
    parser.add_argument("-o", "--output", metavar="FILE", required=True)
    parser.add_argument("--size", metavar="N")
    assert parser.format_usage() == "usage: p IMAGE [IMAGE ...] -o FILE [options]\n"


def test_groups_of_a_verb_stand_before_what_all_verbs_have():
    parser = Parser(prog="p")
    parser.add_argument_group("model").add_argument("--model", metavar="M", help="which")
    text = parser.format_help()
    assert text.index("model:") < text.index("options:") < text.index("-h, --help")


def test_the_version_is_told_before_the_verb_and_after_it(capsys):
    for words in (["--version"], ["info", "--version"], ["data", "list", "--version"]):
        with pytest.raises(SystemExit) as caught:
            build_parser().parse_args(words)
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith("emrdm ")
