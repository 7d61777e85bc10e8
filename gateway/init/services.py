# SPDX-License-Identifier: Apache-2.0
"""The services of both machines: systemd's units, firewalls, network managers and the agent's certificate."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gateway.host import HostError, run, succeeds
from gateway.init.made import COMMAND, FILE, MARK, UNIT, Change, Made, Places, command_line

TREE = Path(__file__).resolve().parents[2]
TREE_OF_SERVICES = Path("/opt/bicast")
PROGRAM = "bicast-agent"
GROUP = "bicast"
BRIDGE, CONTROLLER, LAN, AGENT = "bicast-bridge", "bicast", "bicast-lan", "bicast-agent@gateway"
TLS_FILES = ("controller.pem", "controller.key", "ca.pem")
STARTS_WITHIN_S = 100.0  # systemd gives up after 90 s
AGENT_WITHIN_S = 60.0


class Systemd:
    """The services of this host."""

    def answers(self) -> bool:
        return succeeds(("systemctl", "show", "--property=Version"))

    def is_enabled(self, unit: str) -> bool:
        return succeeds(("systemctl", "--quiet", "is-enabled", unit))

    def is_active(self, unit: str) -> bool:
        return succeeds(("systemctl", "--quiet", "is-active", unit))

    def reload(self) -> None:
        run(("systemctl", "daemon-reload"))

    def enable(self, unit: str) -> None:
        run(("systemctl", "--quiet", "enable", unit), STARTS_WITHIN_S)

    def start(self, unit: str) -> None:
        run(("systemctl", "start", unit), STARTS_WITHIN_S)

    def restart(self, unit: str) -> None:
        run(("systemctl", "restart", unit), STARTS_WITHIN_S)

    def forget_failures(self, units: Iterable[str]) -> None:
        for unit in units:
            succeeds(("systemctl", "reset-failed", unit))  # refused where it has not failed

    def disable(self, unit: str) -> None:
        run(("systemctl", "--quiet", "disable", "--now", unit), STARTS_WITHIN_S)


def is_tree() -> bool:
    """Return whether the services run from the tree in /opt/bicast, and not from packages."""
    return (TREE / "deploy").is_dir()


def refuse_without_services(places: Places, systemd: Systemd) -> None:
    if not systemd.answers():
        raise HostError("systemd does not run here: the services need a machine that systemd has booted")
    if is_tree() and not (TREE_OF_SERVICES.exists() and TREE_OF_SERVICES.samefile(TREE)):
        raise HostError(f"this is {TREE}, and the services run from {TREE_OF_SERVICES}: put the tree there")
    agent_program(places)


def agent_program(places: Places) -> str:
    built = TREE / "build" / PROGRAM
    if is_tree() and built.exists():
        return str(built)
    found = shutil.which(PROGRAM)
    if found is None:
        raise HostError(
            f"{PROGRAM} is not here: run make setup in /opt/bicast, or install the package bicast-agent (see "
            "docs/how-to/install.md)"
        )
    return found


def units(places: Places, made: Made, systemd: Systemd, names: Sequence[str], *, tls: bool) -> Iterator[Change]:
    """Yield the files of the units. Packages bring theirs; with a tree they are copies."""
    files = list(_unit_files(places, names)) if is_tree() else []
    if tls:
        lines = "".join(f"LoadCredential={name}:{places.tls / name}\n" for name in TLS_FILES)
        files.append((places.units / "bicast.service.d/tls.conf", f"{MARK}\n[Service]\n{lines}"))
    if is_tree():
        yield from _programs(places, made)
        if CONTROLLER in names:
            there = succeeds(("getent", "group", GROUP))
            yield Change(f"group {GROUP}", *_there(there), None if there else partial(_make_group, made))
    changes = [made.file(path, text) for path, text in files]
    yield from changes
    if any(change.act for change in changes):
        yield Change("systemd", "old units", "new units", systemd.reload)


def _unit_files(places: Places, names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    deploy = TREE / "deploy"
    for name in names:
        if name == AGENT:
            rights = "bicast-agent@gateway.service.d/rights.conf"
            for each in ("bicast-agent@.service", rights):
                yield places.units / each, _ours((deploy / each).read_text())
        else:
            yield places.units / f"{name}.service", _ours((deploy / f"{name}.service").read_text())


def _ours(text: str) -> str:
    return f"{MARK}\n{text}"


def _programs(places: Places, made: Made) -> Iterator[Change]:
    """Yield the copy of the agent's program that its unit runs."""
    there, here = places.root / "usr/local/bin" / PROGRAM, TREE / "build" / PROGRAM
    same = there.exists() and there.read_bytes() == here.read_bytes()
    if not same and there.exists() and str(there) not in made.entries(FILE):
        raise HostError(f"{there} exists, and `bicast init` did not make it: move it away, and run this again")
    found = "present" if same else "absent or old"
    yield Change(str(there), found, "present", None if same else partial(_copy, made, here, there))


def _copy(made: Made, here: Path, there: Path) -> None:
    made.add(FILE, str(there))
    beside = there.with_name(f"{there.name}.new")  # a program that runs cannot be overwritten
    shutil.copyfile(here, beside)
    beside.chmod(0o755)
    beside.replace(there)


def _make_group(made: Made) -> None:
    made.add(COMMAND, command_line(("groupdel", GROUP)))
    run(("groupadd", "--system", GROUP))


def _there(present: bool) -> tuple[str, str]:
    return ("present" if present else "absent", "present")


def running(made: Made, systemd: Systemd, names: Iterable[str], *, again: bool = False) -> Iterator[Change]:
    """Yield the start of units, now and at boot. With `again` units that run restart, for a new gateway.yaml."""
    for name in names:
        enabled, active = systemd.is_enabled(name), systemd.is_active(name)
        right = enabled and active and not again
        found = f"{'enabled' if enabled else 'disabled'}, {'running' if active else 'not running'}"
        act = None if right else partial(_run, made, systemd, name)
        yield Change(f"service {name}", found, "started, now and at boot", act)


def _run(made: Made, systemd: Systemd, name: str) -> None:
    made.add(UNIT, name)
    systemd.enable(name)
    systemd.restart(name)


def stopped(made: Made, systemd: Systemd) -> Iterator[Change]:
    for name in made.entries(UNIT):
        there = systemd.is_enabled(name) or systemd.is_active(name)
        act = partial(systemd.disable, name) if there else None
        yield Change(f"service {name}", "started" if there else "stopped", "stopped", act)


# The agent


def has_joined(places: Places) -> bool:
    return places.agent.is_dir() and any(places.agent.iterdir())


def join(places: Places, where: str, name: str, token: str) -> None:
    """Fetch the agent's certificate. The token is on standard input: other users can read command lines."""
    command = [agent_program(places), "join", where, "--name", name, "--token", "-", "--directory", str(places.agent)]
    try:
        done = subprocess.run(command, input=f"{token}\n", capture_output=True, text=True, timeout=AGENT_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise HostError(
            f"nothing answered the agent at {where} in {AGENT_WITHIN_S:.0f} s: {OPEN.format(where)}"
        ) from None
    if done.returncode:
        why = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise HostError(f"the agent could not join at {where} ({' '.join(why)}): {OPEN.format(where)}")


OPEN = "let {} into the rented machine, also in its provider's firewall, and run `bicast init` again at both ends"


# Firewalls


@dataclass(frozen=True, slots=True)
class Opening:
    """A part of the firewall that must be open: a port of this machine, or a device whose packets may pass."""

    protocol: str = ""
    first: int = 0
    last: int = 0
    device: str = ""

    def __str__(self) -> str:
        if self.device:
            return f"packets from {self.device}"
        return f"{self.protocol.upper()} {self.first}" + (f" to {self.last}" if self.last != self.first else "")


def port(protocol: str, first: int, last: int | None = None) -> Opening:
    return Opening(protocol, first, last or first)


def _says(command: tuple[str, ...], text: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        return text in run(command).out
    except HostError:
        return False


def firewall() -> str | None:
    """Return the active firewall: ufw, firewalld, or None."""
    if _says(("ufw", "status"), "Status: active"):
        return "ufw"
    if _says(("firewall-cmd", "--state"), "running"):
        return "firewalld"
    return None


def refuse_closed(openings: Sequence[Opening]) -> None:
    """Refuse where a firewall drops that `init` cannot open: rules by hand."""
    if firewall() is None and (closed := closed_by(_ruleset(), openings)):
        names = ", ".join(map(str, closed))
        raise HostError(
            f"this machine's nftables drop incoming packets (policy drop): accept {names} in them, and run this again"
        )


def _ruleset() -> list[dict[str, Any]]:
    text = run(("nft", "-json", "list", "ruleset")).out
    rows: list[dict[str, Any]] = json.loads(text)["nftables"] if text.strip() else []
    return rows


def closed_by(ruleset: Sequence[dict[str, Any]], openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Return what no rule accepts where an input chain has the policy drop."""
    chains = [row["chain"] for row in ruleset if "chain" in row]
    dropping = (each for each in chains if each.get("hook") == "input" and each.get("policy") == "drop")
    tables = {(each["family"], each["table"]) for each in dropping}
    rules = [row["rule"] for row in ruleset if "rule" in row]
    closed = []
    for family, table in sorted(tables):
        ours = [rule["expr"] for rule in rules if (rule["family"], rule["table"]) == (family, table)]
        accepting = [each for each in ours if any("accept" in part for part in each)]
        closed += [one for one in openings if not any(_accepts(each, one) for each in accepting)]
    return tuple(dict.fromkeys(closed))


def _accepts(expressions: Sequence[dict[str, Any]], opening: Opening) -> bool:
    for match in (each["match"] for each in expressions if "match" in each):
        if match.get("op") not in ("==", "in"):
            continue
        left = match.get("left", {})
        if opening.device and left.get("meta", {}).get("key") in ("iif", "iifname"):
            return bool(match["right"] == opening.device)
        payload = left.get("payload", {})
        if (
            not opening.device
            and payload.get("field") == "dport"
            and payload.get("protocol") in (opening.protocol, "th")
        ):
            return all(
                any(_within(number, each) for each in _set(match["right"])) for number in (opening.first, opening.last)
            )
    return False


def _set(right: Any) -> list[Any]:
    return list(right["set"]) if isinstance(right, dict) and "set" in right else [right]


def _within(number: int, each: Any) -> bool:
    if isinstance(each, dict) and "range" in each:
        return bool(each["range"][0] <= number <= each["range"][1])
    return bool(each == number)


def opened(made: Made, openings: Sequence[Opening]) -> Iterator[Change]:
    name = firewall()
    added = run(("ufw", "show", "added")).out if name == "ufw" else ""
    for opening in openings if name else ():
        rules = list(_ufw(opening, added) if name == "ufw" else _firewalld(opening))
        missing = [rule for rule in rules if not rule.there]
        found = "closed" if missing else "open"
        yield Change(f"{name}: {opening}", found, "open", partial(_open, made, missing) if missing else None)


@dataclass(frozen=True, slots=True)
class FirewallRule:
    command: tuple[str, ...]
    undo: tuple[str, ...]
    there: bool


def _open(made: Made, rules: Iterable[FirewallRule]) -> None:
    for rule in rules:
        made.add(COMMAND, command_line(rule.undo))
        run(rule.command)


def _ufw(opening: Opening, added: str) -> Iterator[FirewallRule]:
    """Yield rules. `added` is what `ufw show added` prints: a command in each line."""
    ports = str(opening.first) if opening.first == opening.last else f"{opening.first}:{opening.last}"
    rules: list[tuple[str, ...]] = [("allow", f"{ports}/{opening.protocol}")]
    if opening.device:
        rules = [("allow", "in", "on", opening.device), ("route", "allow", "in", "on", opening.device)]
    for rule in rules:
        there = any(f"{line} ".startswith(f"ufw {' '.join(rule)} ") for line in added.splitlines())
        undo = ("route", "delete", *rule[1:]) if rule[0] == "route" else ("delete", *rule)
        yield FirewallRule(("ufw", *rule, "comment", "bicast"), ("ufw", *undo), there)


def _firewalld(opening: Opening) -> Iterator[FirewallRule]:
    """Yield rules for now and for the next start. Packets of a device in the zone `trusted` pass, also onward."""
    ports = str(opening.first) if opening.first == opening.last else f"{opening.first}-{opening.last}"
    what = f"interface={opening.device}" if opening.device else f"port={ports}/{opening.protocol}"
    zone = ("--zone=trusted",) if opening.device else ()
    for kept in ((), ("--permanent",)):
        words = ("firewall-cmd", "--quiet", *kept, *zone)
        yield FirewallRule(
            (*words, f"--add-{what}"), (*words, f"--remove-{what}"), succeeds((*words, f"--query-{what}"))
        )


def closed_again(made: Made, opening: Opening) -> None:
    """Undo an opening that only `init` itself needed."""
    name = firewall()
    for rule in (_ufw(opening, "") if name == "ufw" else _firewalld(opening)) if name else ():
        if command_line(rule.undo) in made.entries(COMMAND):
            _undo(rule.undo)
            made.forget(COMMAND, command_line(rule.undo))


def undone(made: Made) -> Iterator[Change]:
    for line in made.entries(COMMAND):
        command = tuple(json.loads(line))
        yield Change(" ".join(command), "to do", "done", partial(_undo, command))


def _undo(command: tuple[str, ...]) -> None:
    """Run an undo, which fails where it was done before."""
    succeeds(command)


# Network managers


def unmanaged(places: Places, made: Made, devices: Sequence[str]) -> Iterator[Change]:
    """Yield the files that keep network managers off these devices, which may have `*`."""
    manager, networkd = places.root / "etc/NetworkManager", places.root / "etc/systemd/network"
    if manager.is_dir():
        names = ",".join(f"interface-name:{each}" for each in devices)
        text = f"{MARK}\n[device-bicast]\nmatch-device={names}\nmanaged=0\n"
        change = made.file(manager / "conf.d/bicast.conf", text)
        yield change
        if change.act and succeeds(("systemctl", "--quiet", "is-active", "NetworkManager")):
            again = partial(run, ("systemctl", "reload", "NetworkManager"))
            yield Change("NetworkManager", "old files", "new files", again)
    if networkd.is_dir() and succeeds(("systemctl", "--quiet", "is-active", "systemd-networkd")):
        text = f"{MARK}\n[Match]\nName={' '.join(devices)}\n\n[Link]\nUnmanaged=yes\n"
        change = made.file(networkd / "05-bicast.network", text)
        yield change
        if change.act:
            yield Change("systemd-networkd", "old files", "new files", partial(run, ("networkctl", "reload")))


def managers_reread(systemd: Systemd) -> None:
    """Have running network managers read their files again."""
    if systemd.is_active("NetworkManager"):
        run(("systemctl", "reload", "NetworkManager"))
    if systemd.is_active("systemd-networkd"):
        run(("networkctl", "reload"))
