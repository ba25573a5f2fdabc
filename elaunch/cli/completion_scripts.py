"""The completion scripts of the shells: what is in the parsers as tables, and a short program that looks them up.

All three work alike: the words so far lead to a command ("", "ps", "ckpt rm"), which has parts, options and arguments.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from elaunch.cli.pages import Option, Page, pages

_PATH = {"FILE", "DIR", "PATH", "TOML", "OUT"}


def bash() -> str:
    """For bash 4 and later."""
    return _BASH.replace("@TABLES@", "\n".join(_tables("declare -A")))


def zsh() -> str:
    """For zsh 5 and later."""
    described = {
        f"{page.words}": [f"{_colons(name)}:{_short(o.help)}" for o in page.options for name in o.names]
        for page in pages()
    }
    parts = {page.words: [f"{name}:{_short(text)}" for name, text in _parts(page)] for page in pages()}
    tables = [
        *_tables("typeset -gA"),
        _table("typeset -gA", "_elaunch_described", {words: "\n".join(lines) for words, lines in described.items()}),
        _table("typeset -gA", "_elaunch_parts", {words: "\n".join(lines) for words, lines in parts.items() if lines}),
    ]
    return _ZSH.replace("@TABLES@", "\n".join(tables))


def fish() -> str:
    """For fish 3 and later."""
    found = pages()
    lines = [_FISH.replace("@VALUED@", " ".join(sorted(_valued(found)))).replace("@GROUPS@", " ".join(_grouped(found)))]
    for page in found:
        at = f"__elaunch_at {shlex.quote(page.words)}"
        lines += [
            f"complete -c elaunch -n {shlex.quote(at)} {'-fa' if page.words else '-a'} {name} -d {_fish(text)}"
            for name, text in _parts(page)
        ]
        if _has_job(page):
            lines.append(
                f"complete -c elaunch -n {shlex.quote(at)} -fa '(elaunch completion --jobs 2>/dev/null)' -d job"
            )
        if words := _first_values(page):
            lines.append(f"complete -c elaunch -n {shlex.quote(at)} -fa {shlex.quote(words)}")
        lines += [_fish_option(at, option) for option in page.options]
    return "\n".join(lines) + "\n"


def _tables(declare: str) -> list[str]:
    found = pages()
    return [
        _table(declare, "_elaunch_commands", {p.words: " ".join(n for n, _ in _parts(p)) for p in found if _parts(p)}),
        _table(declare, "_elaunch_options", {page.words: " ".join(_names(page)) for page in found}),
        _table(declare, "_elaunch_valued", dict.fromkeys(sorted(_valued(found)), "1")),
        _table(declare, "_elaunch_values", {n: " ".join(o.values) for n, o in _choices(found)}),
        _table(declare, "_elaunch_words", {p.words: _first_values(p) for p in found if _first_values(p)}),
        _table(declare, "_elaunch_jobs", {page.words: "1" for page in found if _has_job(page)}),
    ]


def _table(declare: str, name: str, values: dict[str, str]) -> str:
    rows = "\n".join(f"  [{shlex.quote('/' + key)}]={shlex.quote(value)}" for key, value in values.items())
    return f"{declare} {name}=(\n{rows}\n)"


def _parts(page: Page) -> list[tuple[str, str]]:
    """The commands that may follow, with their lines."""
    words = page.words.split()
    return [
        (other.words.split()[-1], other.help) for other in pages() if other.words and other.words.split()[:-1] == words
    ]


def _names(page: Page) -> list[str]:
    return ["--help", *(name for option in page.options for name in option.names)]


def _valued(found: Iterable[Page]) -> set[str]:
    return {name for page in found for option in page.options if option.metavar for name in option.names}


def _choices(found: Iterable[Page]) -> list[tuple[str, Option]]:
    return [(name, option) for page in found for option in page.options if option.values for name in option.names]


def _first_values(page: Page) -> str:
    """What the first argument may be, where only certain words may."""
    first = page.positionals[:1]
    return " ".join(first[0].values) if first and not page.parts else ""


def _has_job(page: Page) -> bool:
    return bool(page.positionals) and page.positionals[0].metavar == "JOB"


def _grouped(found: Iterable[Page]) -> list[str]:
    return [page.words for page in found if page.words and page.parts]


def _short(text: str) -> str:
    return text.replace("\n", " ")


def _colons(text: str) -> str:
    return text.replace(":", r"\:")


def _fish(text: str) -> str:
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


def _fish_option(at: str, option: Option) -> str:
    words = ["complete -c elaunch -n", shlex.quote(at)]
    for name in option.names:
        words += ["-l", name[2:]] if name.startswith("--") else ["-s", name[1:]]
    if option.values:
        words += ["-xa", shlex.quote(" ".join(option.values))]
    elif option.metavar:
        words.append("-r" if option.metavar in _PATH else "-x")
    return " ".join([*words, "-d", _fish(option.help)])


_BASH = """\
# Completion of elaunch for bash: eval "$(elaunch completion bash)"
@TABLES@

_elaunch() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= given=0 word n
  COMPREPLY=()
  for ((n = 1; n < COMP_CWORD; n++)); do
    word=${COMP_WORDS[n]}
    if [[ $word == = ]]; then
      ((n++))
    elif [[ $word == -* ]]; then
      [[ ${_elaunch_valued[/$word]} && ${COMP_WORDS[n+1]} != = ]] && ((n++))
    elif [[ " ${_elaunch_commands[/$at]} " == *" $word "* && ($n == 1 || $at) ]]; then
      at=${at:+$at }$word
    else
      ((given++))
    fi
  done
  if [[ ! $at && $given -gt 0 ]]; then  # the script's own arguments
    compopt -o default
    return
  fi
  [[ $cur == = ]] && cur=
  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
  if [[ $prev == -* && ${_elaunch_valued[/$prev]} ]]; then
    if [[ ${_elaunch_values[/$prev]} ]]; then
      COMPREPLY=($(compgen -W "${_elaunch_values[/$prev]}" -- "$cur"))
    else
      compopt -o default
    fi
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "${_elaunch_options[/$at]}" -- "$cur"))
  elif [[ ${_elaunch_jobs[/$at]} && $given -eq 0 ]]; then
    COMPREPLY=($(compgen -W "$(elaunch completion --jobs 2>/dev/null)" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "${_elaunch_commands[/$at]} ${_elaunch_words[/$at]}" -- "$cur"))
    compopt -o default
  fi
}
complete -F _elaunch elaunch
"""

_ZSH = """\
#compdef elaunch
# Completion of elaunch for zsh: eval "$(elaunch completion zsh)", after compinit
@TABLES@

_elaunch() {
  local at= given=0 word prev=${words[CURRENT-1]} n
  for ((n = 2; n < CURRENT; n++)); do
    word=${words[n]}
    if [[ $word == -* ]]; then
      [[ -n ${_elaunch_valued[/$word]} ]] && ((n++))
    elif [[ " ${_elaunch_commands[/$at]} " == *" $word "* && ($n == 2 || -n $at) ]]; then
      at=${at:+$at }$word
    else
      ((given++))
    fi
  done
  if [[ -z $at && $given -gt 0 ]]; then
    _files
    return
  fi
  if [[ $PREFIX == --*=* ]]; then
    prev=${PREFIX%%=*}
    compset -P '*='
  fi
  if [[ $prev == -* && -n ${_elaunch_valued[/$prev]} ]]; then
    if [[ -n ${_elaunch_values[/$prev]} ]]; then
      compadd -- ${=_elaunch_values[/$prev]}
    else
      _files
    fi
  elif [[ $PREFIX == -* ]]; then
    local -a options=("${(@f)_elaunch_described[/$at]}")
    _describe option options
  elif [[ -n ${_elaunch_jobs[/$at]} && $given -eq 0 ]]; then
    compadd -- ${(f)"$(elaunch completion --jobs 2>/dev/null)"}
  else
    if [[ -n ${_elaunch_parts[/$at]} ]]; then
      local -a parts=("${(@f)_elaunch_parts[/$at]}")
      _describe command parts
    fi
    [[ -n ${_elaunch_words[/$at]} ]] && compadd -- ${=_elaunch_words[/$at]}
    [[ $at == "" || -z ${_elaunch_commands[/$at]} ]] && _files
  fi
}
compdef _elaunch elaunch
"""

_FISH = """\
# Completion of elaunch for fish: elaunch completion fish > ~/.config/fish/completions/elaunch.fish
function __elaunch_at
    set -l words (commandline -opc)
    set -e words[1]
    set -l at ""
    set -l skip 0
    set -l first 1
    for word in $words
        if test $skip = 1
            set skip 0
        else if string match -q -- "-*" $word
            contains -- $word @VALUED@; and set skip 1
        else if test $first = 1
            set at $word
        else if contains -- "$at" @GROUPS@
            set at "$at $word"
        end
        set first 0
    end
    test "$at" = "$argv[1]"
end
"""
