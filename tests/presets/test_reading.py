"""Files of presets: YAML means what TOML means, and what a preset does not need is refused."""

import json
import math
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.errors import ConfigError, MissingDependencyError
from emrdm.presets import load_preset
from emrdm.presets.reading import is_preset_file, read_toml, read_yaml


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *[("1e-4", 1e-4), ("2e-4", 2e-4), ("1E5", 1e5), ("1e+5", 1e5), ("-3.5E-2", -0.035), (".5", 0.5), ("1.", 1.0)],
        *[("7", 7), ("-7", -7), ("+7", 7), ("0", 0), ("010", 10), ("0x1F", 31), ("0o17", 15)],
        *[(".inf", math.inf), ("-.INF", -math.inf), ("true", True), ("False", False)],
        *[("null", None), ("~", None), ("", None)],
        *[(word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n", "tRUE")],
        *[
            (word, word)
            for word in ("2024-01-31", "2024-01-31T10:00:00Z", "1:30", "1_000", "0b1", "=", "<<", "e5", "1e")
        ],
        *[("'1e-4'", "1e-4"), ('"true"', "true"), ("'null'", "null"), ("a b", "a b"), ('"\\u00e9"', "é")],
        *[("[1, a, 2e3]", [1, "a", 2000.0]), ("{b: 1e-4}", {"b": 1e-4}), ("|\n  x\n  y\n", "x\ny\n")],
    ],
)
def test_words_mean_what_they_mean_in_yaml_1_2(word, value):
    found = read_yaml(f"a: {word}", "mine.yaml")["a"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_number():
    assert math.isnan(read_yaml("a: .nan", "mine.yaml")["a"])


TOML = """
title = "mine"
data = [{ dataset = "rice1", root = "/data/rice" }, { dataset = "pairs", root = "b", range = [-25, 0] }]
[model.sampler]
steps = 3
rho = 7.5
[optimizer]
lr = 2e-4
betas = [0.9, 0.99]
[train]
compile = true
"""
YAML = """\
# the same
title: mine
data:
  - dataset: rice1
    root: /data/rice
  - {dataset: pairs, root: b, range: [-25, 0]}
model:
  sampler: {steps: 3, rho: 7.5}
optimizer:
  lr: 2e-4
  betas: [0.9, 0.99]
train:
  compile: true
"""


def test_both_kinds_of_file_say_the_same(tmp_path):
    assert read_yaml(YAML, "a") == read_toml(TOML, "b")
    (tmp_path / "mine.toml").write_text('base = "tiny"\n' + TOML)
    (tmp_path / "mine.yaml").write_text("base: tiny\n" + YAML)
    (tmp_path / "mine.yml").write_text("\ufeffbase: tiny\n" + YAML, "utf-8")
    presets = [load_preset(tmp_path / f"mine.{ending}") for ending in ("toml", "yaml", "yml")]
    assert presets[0] == presets[1] == presets[2]
    assert presets[1].optimizer.lr == 2e-4


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "--- # nothing\n...\n", "null", "{}"])
def test_a_file_with_nothing_in_it_has_no_keys(text):
    assert read_yaml(text, "mine.yaml") == {}


def test_a_base_may_be_of_the_other_kind(tmp_path):
    (tmp_path / "a.toml").write_text('base = "tiny"\ntitle = "a"\n[model.sampler]\nsteps = 9\n')
    (tmp_path / "b.yaml").write_text("base: a.toml\ntitle: b\n")
    (tmp_path / "c.yml").write_text("base: b.yaml\noptimizer: {lr: 1e-5}\n")
    (tmp_path / "d.toml").write_text('base = "c.yml"\n[train]\nsteps = 5\n')
    preset = load_preset(tmp_path / "d.toml")
    assert (preset.title, preset.model.sampler.steps, preset.optimizer.lr, preset.train.steps) == ("b", 9, 1e-5, 5)


def test_a_yaml_file_cannot_build_on_itself(tmp_path):
    (tmp_path / "a.yaml").write_text("base: b.toml\n")
    (tmp_path / "b.toml").write_text('base = "a.yaml"\n')
    with pytest.raises(ConfigError, match="builds on itself"):
        load_preset(tmp_path / "a.yaml")


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "line 2: the tag tag:yaml.org,2002:python/object/apply"),
        ("a: !thing 1\n", "line 1: the tag !thing: expected a value without a tag"),
        ("a: !!int '3'\n", "line 1: the tag tag:yaml.org,2002:int"),
        ("a: ! 3\n", "line 1: the tag !"),
        ("!!map {a: 1}\n", "line 1: the tag"),
        ("{!!str a: 1}\n", "line 1: the tag"),
        (BOMB, "line 1: &a is an anchor or alias: expected the value itself"),
        ("a: 1\nb: *a\n", "line 2: *a is an anchor or alias"),
        ("a: &a [*a]\n", "line 1: &a is an anchor"),
        ("&a {a: 1}\n", "line 1: &a is an anchor"),
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is there twice: expected it once"),
        ("m:\n  a: 1\n  'a': 3\n", "line 3: the key 'a' is there twice"),
        ("a: {b: 1, b: 1}\n", "line 1: the key 'b' is there twice"),
        ("a: 1\n---\nb: 2\n", "expected a single document in the stream, but found another document (at line 2"),
        ("a: 1\n1: 2\n", "line 2: a key is '1': expected a text (in quotes, if it looks like a number)"),
        ("true: 2\n", "line 1: a key is 'true': expected a text"),
        ("1e-4: 2\n", "line 1: a key is '1e-4': expected a text"),
        ("? [a, b]\n: 1\n", "line 1: a key is a table or list: expected a text"),
        ("{null: 1}", "line 1: a key is 'null': expected a text"),
        ("- a\n- b\n", "is a list: expected keys"),
        ("just words\n", "is a single value: expected keys"),
        ("a: [1, 2\n", "not valid YAML: while parsing a flow sequence"),
        ("a: b: c\n", "not valid YAML: mapping values are not allowed here (at line 1, column 5)"),
        ("a:\n\t- b\n", "not valid YAML"),
        ("a: \0", "not valid YAML: unacceptable character #x0000"),
        ('a: "\\UFFFFFFFF"', "not valid YAML"),
        ('a: "\\ud800"', "not valid YAML"),
        ('"\\ud800": a', "not valid YAML"),
        ("%YAML 9.9\n---\na: 1\n", "not valid YAML: found incompatible YAML document"),
        ("a: " + "9" * 5000, "not valid YAML"),
    ],
)
def test_what_a_preset_does_not_need_is_refused_in_one_line(text, message):
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "mine.yaml")
    assert str(caught.value).startswith("mine.yaml: ")
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 600


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 5000, "- " * 100_000, "? " * 5000, "a: " + "[" * 2000])
def test_deep_nesting_is_refused_at_once(text):
    start = time.perf_counter()
    with pytest.raises(ConfigError, match=r"mine\.yaml: nested too deeply"):
        read_yaml(text, "mine.yaml")
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("ending", ["toml", "yaml", "yml"])
def test_a_file_that_is_too_large_is_not_even_read(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    path.write_text("#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"has 1,048,577 bytes: a preset has at most 1,048,576"):
        load_preset(path)


def test_a_yaml_file_is_checked_as_strictly(tmp_path):
    path = tmp_path / "mine.yaml"
    for text, message in (
        ("base: tiny\nmodel: {sampler: {step: 3}}\n", "unknown key 'model.sampler.step'; did you mean 'steps'?"),
        ("base: tiny\ntrain: {compile: yes}\n", "train.compile is 'yes': expected true or false"),
        ("base: tiny\ntrain: {steps: 1e3}\n", "train.steps is 1000.0: expected a whole number"),
        ("base: tiny\n<<: {title: a}\n", "unknown key '<<'"),
        ("base: [tiny]\n", "base is ['tiny']: expected the name of a preset"),
        ("base: none.yaml\n", "none.yaml cannot be read: No such file or directory"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_preset(path)
        assert message in str(caught.value)


def test_files_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match=r"mine\.yaml is not text in UTF-8"):
        load_preset(path)


def test_without_pyyaml_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "mine.yaml"
    path.write_text("base: tiny\n")
    with pytest.raises(MissingDependencyError) as caught:
        load_preset(path)
    assert str(caught.value) == "YAML files need pyyaml: pip install 'emrdm[train]' (or write TOML)"
    assert load_preset("tiny")


def test_other_readers_of_yaml_are_left_as_they_are():
    import yaml

    read_yaml("a: 1", "mine.yaml")
    assert yaml.safe_load("[1e-4, yes, 010]") == ["1e-4", True, 8]


def test_the_ending_tells_a_file_from_a_name():
    assert [
        name for name in ("tiny", "a.toml", "b/c.yaml", "d.yml", "e.safetensors", "yaml") if is_preset_file(name)
    ] == [
        "a.toml",
        "b/c.yaml",
        "d.yml",
    ]


SIGNS = list("ab1:-?[]{},&*!'\"\\|>%#@`.+=~é\0\t\x85\u2028\ufeff")
WORDS = [
    "\n",
    "\n  ",
    " ",
    "b: ",
    "- ",
    "? ",
    "\n---\n",
    "\n...\n",
    "&a ",
    "*a",
    "!!int ",
    "!<",
    "\\u",
    "\\UFFFFFFFF",
    "<<: ",
]
NUMBERS = ["%YAML 1.1\n", "%TAG ! x\n", "1e-4", "0x", "0o8", "true", "null", ".nan", "2024-01-01"]
PIECES = st.sampled_from(SIGNS + WORDS + NUMBERS)


@settings(max_examples=1000, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join)))
def test_any_text_gives_a_table_or_one_line(text):
    try:
        found = read_yaml(text, "mine.yaml")
    except ConfigError as error:
        assert str(error).startswith("mine.yaml: ")  # noqa: PT017 - both outcomes are fine
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert all(isinstance(key, str) for key in found)
        assert type(found) is dict


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
)
TREES = st.recursive(
    LEAVES, lambda tree: st.one_of(st.lists(tree), st.dictionaries(st.text("abc:- 1e\n'"), tree)), max_leaves=15
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("abcdefé_-.1"), TREES))
def test_json_is_read_as_json(tree):
    """YAML 1.2 is a superset of JSON, so this is a second implementation."""
    assert read_yaml(json.dumps(tree), "mine.yaml") == tree
