"""Completion scripts for bash, zsh and fish, from the command line as data."""

from __future__ import annotations

from collections.abc import Iterable

from emrdm.cli.commands import Command, Option, Values

_BASH = """\
# Completion of emrdm for bash, made by: emrdm completion bash

# What an option's value may be; fails where it takes none.
_emrdm_value() {
    words='' paths=''
    case $1 in
@VALUES@
    *) return 1 ;;
    esac
}

# What an argument may be: command, and how many stand before it.
_emrdm_argument() {
    words='' paths=''
    case $1 in
@ARGUMENTS@
    esac
}

_emrdm_options() {
    case $1 in
@OPTIONS@
    esac
}

_emrdm() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' option='' words='' paths='' place=0 i word
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == '=' ]]; then
            ((i++))
        elif [[ $word == -* ]]; then
            if [[ ${COMP_WORDS[i + 1]} != '=' ]] && _emrdm_value "$command $word"; then ((i++)); fi
        else
            case "$command/$word" in
            @COMMANDS@) command="${command:+$command }$word" ;;
            *) ((place++)) ;;
            esac
        fi
    done
    if [[ $cur == '=' ]]; then
        option=$prev cur=''
    elif [[ $prev == '=' ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $prev == -* ]] && _emrdm_value "$command $prev"; then
        option=$prev
    fi
    words='' paths=''
    if [[ $option == -* ]]; then
        _emrdm_value "$command $option"
    elif [[ -n $option ]]; then
        paths=f # KEY=VALUE or NAME=FOLDER
    elif [[ $cur == -* ]]; then
        words=$(_emrdm_options "$command")
    else
        _emrdm_argument "$command:$place"
    fi
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(
        compgen -W "$words" -- "$cur"
        if [[ -n $paths ]]; then compgen "-$paths" -- "$cur"; fi
    )
    if [[ -n $paths ]]; then compopt -o filenames 2> /dev/null; fi
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2> /dev/null; fi
    return 0
}

complete -F _emrdm emrdm
"""


def bash(program: Command) -> str:
    """For bash, from 3.2 on."""
    values, arguments, options, known = [], [], [], []
    for command in program.all():
        name = " ".join(command.path)
        if command.path:
            known.append(f"{' '.join(command.path[:-1])}/{command.path[-1]}")
        for option in command.options:
            if option.values is not None:
                patterns = "|".join(_quoted(f"{name} {spelling}") for spelling in option.names)
                values.append(f"    {patterns}) {_bash_values(option.values)} ;;")
        for place, argument in enumerate(_arguments(command)):
            last = command.repeats and place == len(command.arguments) - 1
            arguments.append(f"    {_quoted(f'{name}:')}{'*' if last else place}) {_bash_values(argument)} ;;")
        spellings = " ".join(spelling for option in command.options for spelling in option.names)
        options.append(f"    {_quoted(name)}) echo {_quoted(spellings)} ;;")
    return (
        _BASH.replace("@VALUES@", "\n".join(values))
        .replace("@ARGUMENTS@", "\n".join(arguments))
        .replace("@OPTIONS@", "\n".join(options))
        .replace("@COMMANDS@", " | ".join(map(_quoted, known)))
    )


def _bash_values(values: Values) -> str:
    paths = "f" if values.files else "d" if values.folders else ""
    words = [f"words={_quoted(' '.join(values.words))}"] if values.words else []
    return " ".join([*words, *([f"paths={paths}"] if paths else [])]) or ":"


_ZSH = """\
#compdef emrdm
# Completion of emrdm for zsh, made by: emrdm completion zsh

# Words, and files (f) or folders (d) beside them.
_emrdm_pick() {
    local paths=$1
    shift
    (( $# )) && compadd -- "$@"
    case $paths in
    f) _files ;;
    d) _files -/ ;;
    esac
}

@FUNCTIONS@
if [ "$funcstack[1]" = "_emrdm" ]; then
    _emrdm "$@"
else
    compdef _emrdm emrdm
fi
"""
_ZSH_PARENT = """\
@NAME@() {
    local curcontext=$curcontext context state line
    local -a parts
    typeset -A opt_args
    _arguments -C -S \\
@SPECS@
        '1: :->part' '*:: :->rest'
    case $state in
    part)
        parts=(
@PARTS@
        )
        _describe command parts
        ;;
    rest)
        case $words[1] in
@CALLS@
        esac
        ;;
    esac
}
"""
_ZSH_LEAF = """\
@NAME@() {
    _arguments -S \\
@SPECS@
}
"""


def zsh(program: Command) -> str:
    """For zsh, as a file on its fpath or to be sourced."""
    functions = []
    for command in program.all():
        specs = [f"        {_zsh_option(option)} \\" for option in command.options]
        places = [
            f"        {_quoted(f'{_zsh_place(command, i)}: :{_zsh_values(argument)}')} \\"
            for i, argument in enumerate(command.arguments)
        ]
        if command.parts:
            text = _ZSH_PARENT.replace(
                "@PARTS@",
                "\n".join(f"            {_quoted(f'{part.path[-1]}:{part.help}')}" for part in command.parts),
            ).replace(
                "@CALLS@",
                "\n".join(f"        {part.path[-1]}) {_zsh_name(part)} ;;" for part in command.parts),
            )
            text = text.replace("@SPECS@", "\n".join(specs))
        else:
            text = _ZSH_LEAF.replace("@SPECS@", "\n".join([*specs, *places]).removesuffix(" \\"))
        functions.append(text.replace("@NAME@", _zsh_name(command)))
    return _ZSH.replace("@FUNCTIONS@", "\n".join(functions))


def _zsh_name(command: Command) -> str:
    return "_".join(("_emrdm", *command.path))


def _zsh_place(command: Command, place: int) -> str:
    return "*" if command.repeats and place == len(command.arguments) - 1 else str(place + 1)


def _zsh_option(option: Option) -> str:
    """A spec of _arguments; options may be repeated, since argparse lets them."""
    says = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = "" if option.values is None else f":{_zsh_label(option)}:{_zsh_values(option.values)}"
    return " ".join(_quoted(f"*{name}[{says}]{value}") for name in option.names)


def _zsh_label(option: Option) -> str:
    return option.metavar.replace(":", "\\:").replace("[", "(").replace("]", ")") or "value"


def _zsh_values(values: Values) -> str:
    """An action of _arguments; with a blank in front, it is called as it stands."""
    paths = "f" if values.files else "d" if values.folders else "-"
    return " " if values == Values() else f" _emrdm_pick {' '.join((paths, *values.words))}"


_FISH = """\
# Completion of emrdm for fish, made by: emrdm completion fish

# Whether the command so far is this one, such as "data list".
function __emrdm_at
    set -l words (commandline -opc)
    set -l at
    for word in $words[2..-1]
        switch "$at/$word"
            case @COMMANDS@
                set at (string trim "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end

complete -c emrdm -f
@LINES@
"""


def fish(program: Command) -> str:
    """For fish, from 3.0 on."""
    known = [f"{' '.join(command.path[:-1])}/{command.path[-1]}" for command in program.all() if command.path]
    lines = []
    for command in program.all():
        here = _here(command)
        lines += [f"{here} -a {part.path[-1]} -d {_fish_text(part.help)}" for part in command.parts]
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if option.values is None else f" {_fish_values(option.values, needed=True)}"
            lines.append(f"{here} {names}{value} -d {_fish_text(option.help)}")
        for argument in dict.fromkeys(command.arguments):
            if argument != Values():
                lines.append(f"{here} {_fish_values(argument, needed=False)}")
    return _FISH.replace("@COMMANDS@", " ".join(map(_quoted, known))).replace("@LINES@", "\n".join(lines))


def _here(command: Command) -> str:
    return f"complete -c emrdm -n \"__emrdm_at '{' '.join(command.path)}'\""


def _fish_values(values: Values, *, needed: bool) -> str:
    words = list(values.words)
    if values.folders and not values.files:
        words.append("(__fish_complete_directories)")
    parts = ["-r -F" if values.files else "-x"] if needed else ["-F"] if values.files else []
    return " ".join([*parts, *([f'-a "{" ".join(words)}"'] if words else [])])


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _arguments(command: Command) -> Iterable[Values]:
    """What may stand at each place: the parts of a command that has some, else its arguments."""
    return (Values(tuple(part.path[-1] for part in command.parts)),) if command.parts else command.arguments


def _quoted(text: str) -> str:
    """Always in quotes, and never broken by them."""
    return "'" + text.replace("'", "'\\''") + "'"
