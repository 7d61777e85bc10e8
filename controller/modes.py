"""What people wish of modes: of terminals, or of one class of their traffic; and how it is said that it was done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.known import Wanted, in_class, without
from controller.model import Mode, Site, Terminal
from controller.wishes import unknown_class

Placed = tuple[Site, Terminal]  # a terminal and where it is


def having(terminals: list[Placed], traffic: str) -> list[Placed]:
    """Those whose site has the class; one at least, or UnknownClass."""
    found = [(site, terminal) for site, terminal in terminals if traffic in (each.name for each in site.named)]
    if not found:
        there = dict.fromkeys(each.name for site, _ in terminals for each in site.named)
        raise unknown_class(traffic, dict.fromkeys(site.name for site, _ in terminals), there)
    return found


def wished(
    wanted: Wanted, terminals: list[Placed], traffic: str | None, mode: Mode | None
) -> tuple[Wanted, list[tuple[Site, str]]]:
    """What is wanted then, and a sentence for each terminal. No class: all that is in none with a mode of its own; no
    mode: that of the configuration, now and as it changes."""
    keys = [terminal.name if traffic is None else in_class(terminal.name, traffic) for _, terminal in terminals]
    if mode is None:
        after = replace(wanted, modes=without(wanted.modes, keys))
    else:
        after = replace(wanted, modes={**wanted.modes, **dict.fromkeys(keys, mode)})
    said = []
    for key, (site, terminal) in zip(keys, terminals, strict=True):
        if mode is None:
            already = "" if key in wanted.modes else "already "
            sentence = f"{key} is {already}left to the file, which has it in {_in_file(after, terminal, traffic)}"
        else:
            already = "already " if _mode(wanted, terminal, traffic) is mode else ""
            sentence = f"{key} is {already}in mode {mode.value}"
        said.append((site, sentence + ("" if traffic is not None else _except(after, site, terminal))))
    return after, said


def is_all_off(wanted: Wanted, site: Site, terminal: Terminal) -> bool:
    """Whether nothing of it rides its active uplink."""
    modes = (wanted.mode(terminal), *(wanted.mode_of(terminal, each.name) for each in site.named))
    return all(mode is Mode.OFF for mode in modes)


def _mode(wanted: Wanted, terminal: Terminal, traffic: str | None) -> Mode:
    return wanted.mode(terminal) if traffic is None else wanted.mode_of(terminal, traffic)


def _in_file(wanted: Wanted, terminal: Terminal, traffic: str | None) -> str:
    follows = traffic is not None and traffic not in dict(terminal.modes)
    mode = f"mode {_mode(wanted, terminal, traffic).value}"
    return f"{mode}, as {terminal.name} is" if follows else mode


def _except(wanted: Wanted, site: Site, terminal: Terminal) -> str:
    kept = [f"{name} {mode.value}" for name, mode in _own_modes(wanted, site, terminal)]
    return f"; its classes keep modes of their own: {', '.join(kept)}" if kept else ""


def _own_modes(wanted: Wanted, site: Site, terminal: Terminal) -> Iterable[tuple[str, Mode]]:
    """Of the classes that do not follow the terminal."""
    for each in site.named:
        if in_class(terminal.name, each.name) in wanted.modes or each.name in dict(terminal.modes):
            yield each.name, wanted.mode_of(terminal, each.name)
