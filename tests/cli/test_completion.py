"""emrdm completion."""

import subprocess
import sys

import pytest

from emrdm.cli import build_parser, commands, main, shells


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell, capsys):
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == getattr(shells, shell)(commands.read(build_parser()))


def test_a_shell_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["completion", "tcsh"])
    assert caught.value.code == 2
    assert "found 'tcsh'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["restore", "--help"], ["completion", "bash"], ["inof"]])
def test_nothing_heavy_is_imported_where_nothing_is_computed(words):
    script = (
        "import sys, emrdm.cli\n"
        "try: emrdm.cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = ('numpy', 'torch', 'PIL', 'rasterio', 'matplotlib', 'safetensors', 'yaml', 'http.server')\n"
        "print(*(name for name in heavy if name in sys.modules), file=sys.stderr, end='')\n"
    )
    found = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    assert [line for line in found.stderr.splitlines() if not line.startswith("emrdm")] == []
