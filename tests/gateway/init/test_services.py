# SPDX-License-Identifier: Apache-2.0
"""Firewalls and network managers get what bicast needs, and lose it again. Files of others stay."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from gateway.host import HostError
from gateway.init import services
from gateway.init.made import COMMAND, DIRECTORY, FILE, Change, Made, Places, removals, written
from gateway.init.services import (
    Opening,
    Systemd,
    closed_again,
    closed_by,
    opened,
    port,
    refuse_closed,
    undone,
    unmanaged,
)
from gateway.init.steps import carry_out, configuration, refuse_taken, tls_listed
from tests.gateway.conftest import shell
from tests.setup.place import program

OPENINGS = (port("tcp", 6653), port("udp", 8631, 8632), Opening(device="ve-far-h"))
# Each keeps its rules in a file, one a line.
REMOVE = """
remove() {
    grep -vxF -e "$1" $RULES >$RULES.new
    mv $RULES.new $RULES
}
"""
UFW = f"""{REMOVE}
case "$1 $2" in
"status "*) echo "Status: active" ;;
"show added") cat $RULES | sed "s/^/ufw /" ;;
"delete "*|"route delete") remove "$(printf %s "$*" | sed 's/delete //')" ;;
*) printf '%s\\n' "$*" | sed 's/ comment .*//' >>$RULES ;;
esac
"""
FIREWALLD = f"""{REMOVE}
case "$*" in
--state) echo running ;;
*--query-*) grep -qxF -e "$(printf %s "$*" | sed 's/--query-//')" $RULES ;;
*--add-*) printf '%s\\n' "$*" | sed 's/--add-//' >>$RULES ;;
*--remove-*) remove "$(printf %s "$*" | sed 's/--remove-//')" ;;
esac
"""


def nothing(_: Change) -> None:
    """Report no change."""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "root")


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the rules of the fake firewalls, which are first in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("RULES", str(tmp_path / "rules"))
    (tmp_path / "rules").write_text("allow 22/tcp\n")
    return tmp_path / "rules"


@pytest.mark.parametrize(("name", "text"), [("ufw", UFW), ("firewall-cmd", FIREWALLD)])
def test_firewall_opens_once_and_closes_again(
    places: Places, rules: Path, tmp_path: Path, name: str, text: str
) -> None:
    program(tmp_path / "bin", name, text)
    made = Made(places)
    before = rules.read_text()
    assert carry_out(opened(made, OPENINGS), nothing) == len(OPENINGS)
    after = rules.read_text()
    assert "6653" in after and "8631" in after and "ve-far-h" in after
    assert carry_out(opened(made, OPENINGS), nothing) == 0
    assert rules.read_text() == after
    carry_out(undone(made), nothing)
    assert rules.read_text() == before


def test_firewall_keeps_an_opening_of_others(places: Places, rules: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "ufw", UFW)
    rules.write_text("allow 6653/tcp\n")
    made, before = Made(places), rules.read_text()
    carry_out(opened(made, OPENINGS), nothing)
    carry_out(undone(made), nothing)
    assert rules.read_text() == before


def test_firewall_closes_the_door_of_the_invitation(places: Places, rules: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "ufw", UFW)
    made, before, door = Made(places), rules.read_text(), port("tcp", 8654)
    carry_out(opened(made, (door,)), nothing)
    assert "8654" in rules.read_text()
    closed_again(made, door)
    assert rules.read_text() == before
    assert not list(made.entries(COMMAND))


def test_nftables_that_drop_are_named_until_they_accept() -> None:
    refuse_closed(OPENINGS)
    shell("nft 'table inet filter { chain input { type filter hook input priority 0; policy drop; }; }'")
    with pytest.raises(HostError, match="TCP 6653, UDP 8631 to 8632, packets from ve-far-h"):
        refuse_closed(OPENINGS)
    shell("nft add rule inet filter input tcp dport '{ 22, 6653 }' accept")
    shell("nft add rule inet filter input udp dport 8600-8700 accept")
    with pytest.raises(HostError, match="accept packets from ve-far-h in them"):
        refuse_closed(OPENINGS)
    shell("nft add rule inet filter input iifname ve-far-h accept")
    refuse_closed(OPENINGS)


def test_nftables_that_drop_elsewhere_do_not_count() -> None:
    shell("nft 'table inet filter { chain forward { type filter hook forward priority 0; policy drop; }; }'")
    assert closed_by(services._ruleset(), OPENINGS) == ()


def test_network_manager_keeps_off_the_devices(places: Places, rules: Path, tmp_path: Path) -> None:
    program(tmp_path / "bin", "systemctl", 'printf "%s\\n" "$*" >>$RULES')
    program(tmp_path / "bin", "networkctl", 'printf "networkctl %s\\n" "$*" >>$RULES')
    for each in ("etc/NetworkManager", "etc/systemd/network"):
        (places.root / each).mkdir(parents=True)
    made = Made(places)
    carry_out(unmanaged(places, made, ("enp3s0", "tn-*")), nothing)
    text = (places.root / "etc/NetworkManager/conf.d/bicast.conf").read_text()
    assert "match-device=interface-name:enp3s0,interface-name:tn-*\nmanaged=0\n" in text
    assert "Name=enp3s0 tn-*" in (places.root / "etc/systemd/network/05-bicast.network").read_text()
    assert "reload NetworkManager" in rules.read_text() and "networkctl reload" in rules.read_text()
    assert carry_out(unmanaged(places, made, ("enp3s0", "tn-*")), nothing) == 0
    carry_out(removals(places, made), nothing)
    assert [each.name for each in (places.root / "etc/NetworkManager").iterdir()] == []


# The list


def test_list_names_a_file_before_it_exists(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(places)
    assert not made
    monkeypatch.setattr("gateway.init.made.written", _only_the_list)
    with pytest.raises(InterruptedError):
        made.write(places.defaults, "text")
    assert [*made.entries(FILE)] == [str(places.defaults)]


def _only_the_list(path: Path, text: str, mode: int) -> None:
    if path.name != "made-by-init":
        raise InterruptedError
    written(path, text, mode)


def test_files_of_others_are_not_overwritten(places: Places) -> None:
    made = Made(places)
    places.gateway.parent.mkdir(parents=True)
    places.gateway.write_text("sites: {}\n")
    with pytest.raises(HostError, match="move it away"):
        made.file(places.gateway, "other")
    assert places.gateway.read_text() == "sites: {}\n"


def test_files_are_replaced_in_one_step_with_their_mode(places: Places) -> None:
    made = Made(places)
    for text in ("one", "two"):
        change = made.file(places.tls / "switch-1.key", text, 0o600)
        assert change.act is not None
        change.act()
    assert (places.tls / "switch-1.key").read_text() == "two"
    assert (places.tls / "switch-1.key").stat().st_mode & 0o777 == 0o600
    assert made.file(places.tls / "switch-1.key", "two", 0o600).act is None
    assert [each.name for each in places.tls.iterdir()] == ["switch-1.key"]


def test_removal_takes_what_is_listed_and_nothing_else(places: Places) -> None:
    places.configuration.mkdir(parents=True)
    (places.configuration / "kept").write_text("kept")
    made = Made(places)
    made.write(places.defaults, "text")
    made.make_directory(places.tls, 0o700)
    (places.tls / "kept").write_text("kept")
    carry_out(removals(places, made), nothing)
    assert made, "the list goes last"
    made.end().act()  # type: ignore[misc]
    left = sorted(str(each.relative_to(places.root)) for each in places.root.rglob("*") if each.is_file())
    assert left == ["etc/bicast/kept", "etc/bicast/tls/kept"]
    assert not places.defaults.parent.exists()


def test_list_leaves_out_lines_that_it_does_not_know(places: Places) -> None:
    made = Made(places)
    made.write(places.defaults, "text")
    places.list.write_text(places.list.read_text() + "other thing\n\nfile\n")
    assert [*made.entries(DIRECTORY)][-1] == str(places.root)


def test_configuration_with_errors_is_not_written(places: Places) -> None:
    with pytest.raises(HostError, match="sites"):
        carry_out(configuration(places, Made(places), "sites: 7\n", "far"), nothing)
    assert not places.root.exists()


def test_taken_ports_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(HostError, match="is in use on this machine"):
        refuse_taken((taken.getsockname()[1],), ())
    refuse_taken((), ())


class FakeSystemd(Systemd):
    """A systemd whose units are files: enabled or active while their names are in a set."""

    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.active: set[str] = set()
        self.reloads = 0

    def is_enabled(self, unit: str) -> bool:
        return unit in self.enabled

    def is_active(self, unit: str) -> bool:
        return unit in self.active

    def reload(self) -> None:
        self.reloads += 1

    def enable(self, unit: str) -> None:
        self.enabled.add(unit)

    def restart(self, unit: str) -> None:
        self.active.add(unit)

    def disable(self, unit: str) -> None:
        self.enabled.discard(unit)
        self.active.discard(unit)


def test_packages_bring_the_units_and_init_adds_the_keys(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "is_tree", lambda: False)
    made, systemd = Made(places), FakeSystemd()
    carry_out(services.units(places, made, systemd, ("bicast", "bicast-bridge"), tls=True), nothing)
    files = [each for each in places.units.rglob("*") if each.is_file()]
    assert files == [places.units / "bicast.service.d/tls.conf"]
    assert "LoadCredential=controller.key:" in files[0].read_text()
    assert systemd.reloads == 1
    assert carry_out(services.units(places, made, systemd, ("bicast",), tls=True), nothing) == 0


def test_services_start_once_and_stop(places: Places) -> None:
    made, systemd = Made(places), FakeSystemd()
    names = ("bicast-bridge", "bicast")
    assert carry_out(services.running(made, systemd, names), nothing) == 2
    assert systemd.enabled == systemd.active == set(names)
    systemd.active.discard("bicast-bridge")
    assert carry_out(services.running(made, systemd, names), nothing) == 1
    assert carry_out(services.running(made, systemd, names, again=True), nothing) == 2
    assert carry_out(services.stopped(made, systemd), nothing) == 2
    assert systemd.enabled | systemd.active == set()
    assert carry_out(services.stopped(made, systemd), nothing) == 0


def test_half_made_keys_of_a_killed_run_are_removed(places: Places) -> None:
    made, pair = Made(places), (("ca.pem", "ca-signing.key"), ("switch-1.pem", "switch-1.key"))
    carry_out(tls_listed(places, made, pair), nothing)
    for name, text in (("ca.pem", "c"), ("ca-signing.key", "k"), ("switch-1.pem", ""), ("switch-1.key", "k")):
        (places.tls / name).write_text(text)
    assert carry_out(tls_listed(places, made, pair), nothing) == 1
    assert sorted(each.name for each in places.tls.iterdir()) == ["ca-signing.key", "ca.pem"]
    assert places.tls.stat().st_mode & 0o777 == 0o700
