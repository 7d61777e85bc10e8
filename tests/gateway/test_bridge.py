# SPDX-License-Identifier: Apache-2.0
"""`./bicast bridge` keeps its promises on a real Open vSwitch."""

from __future__ import annotations

import copy
import json
import os
import re
import socket
import ssl
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.__main__ import main
from controller.edges.config.load import load
from controller.model.config import Datapath
from gateway import links, ovs, sending, tls
from lab.stage.ovs import PrivateOvs
from tests.gateway.conftest import ROOT, shell

Files = Callable[..., str]
Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("ovs", "ports")


def bridge(capsys: Captured, *words: str) -> tuple[int, str, str]:
    code = main(["bridge", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def done(capsys: Captured, *words: str) -> str:
    code, out, err = bridge(capsys, *words)
    assert code == 0, err
    return out


def home() -> ovs.SeenBridge:
    seen = ovs.read().bridge("br-home")
    assert seen is not None
    return seen


def listing() -> str:
    """Return the whole database without the columns that OVS itself writes."""
    columns = {
        "Bridge": "name,datapath_type,other_config,protocols,fail_mode,external_ids,ports,controller",
        "Interface": "name,ofport,ofport_request,external_ids",
        "Controller": "_uuid,target,connection_mode,inactivity_probe,max_backoff,controller_rate_limit",
        "SSL": "_uuid,private_key,certificate,ca_cert,external_ids",
    }
    return "".join(shell(f"ovs-vsctl --columns={names} list {table}") for table, names in columns.items())


def test_bridge_applies_the_configuration(gateway_file: Files, capsys: Captured) -> None:
    done(capsys, gateway_file())
    made = home()
    assert (made.datapath, made.dpid, made.fail_mode) == ("netdev", "00000000000000a1", "secure")
    assert made.protocols == {"OpenFlow13"}
    assert "dpid:00000000000000a1" in shell("ovs-ofctl -O OpenFlow13 show br-home")
    (controller,) = made.controllers
    assert controller.target == "tcp:127.0.0.1:6653"
    assert (controller.columns["connection_mode"], controller.columns["max_backoff"]) == ("out-of-band", "1000")
    assert {port.name: port.number for port in made.ports} == {"w0": 1, "l0": 2, "c0": 3}
    assert all(link.up for link in links.read() if link.name in ("w0", "l0", "c0"))


def test_a_second_run_changes_nothing_and_says_so(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file(tls=True)
    done(capsys, file)
    before = listing()
    assert "nothing to change" in done(capsys, file)
    assert done(capsys, file, "--dry-run") == ""
    assert listing() == before


def test_dry_run_prints_commands_that_do_the_work(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file(tls=True)
    commands = done(capsys, file, "--dry-run")
    assert not ovs.read().bridges
    assert not Path(file).with_name("tls").exists()
    shell(f"set -e\n{commands}")
    assert "nothing to change" in done(capsys, file)


def test_bridge_repairs_only_changed_settings(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file()
    done(capsys, file)
    before = listing()
    shell("ovs-vsctl set-fail-mode br-home standalone -- set Controller br-home max_backoff=8000")
    shell("ethtool -K w0 tx on && ip link set l0 down")
    answer = json.loads(done(capsys, file, "--json"))
    assert {step["name"] for step in answer["steps"] if step["changed"]} == {
        "br-home fail_mode",
        "br-home controller connection",
        "w0 offloads",
        "l0 link",
    }
    assert listing() == before


def test_ports_keep_their_numbers(gateway_file: Files, capsys: Captured) -> None:
    shell("ip link add x0 type veth peer name x1")
    shell("ovs-vsctl add-br br-home -- set Bridge br-home datapath_type=netdev")
    shell("ovs-vsctl add-port br-home x0 -- add-port br-home c0 -- set Interface c0 ofport_request=7")
    others = home().port("x0")
    assert others is not None
    done(capsys, gateway_file())
    numbers = {port.name: port.number for port in home().ports}
    assert numbers["c0"] == 7
    assert numbers["x0"] == others.number == 1
    assert (numbers["w0"], numbers["l0"]) == (2, 3)
    shell("ovs-vsctl del-port br-home w0")
    done(capsys, gateway_file())
    assert {port.name: port.number for port in home().ports} == numbers


def test_offloads_are_off_on_userspace_ports(gateway_file: Files, capsys: Captured) -> None:
    before = {name: set(links.offloads(name).on) for name in ("w0", "l0", "c0")}
    assert {"tso", "gso", "tx"} <= before["w0"]
    file = gateway_file()
    done(capsys, file)
    assert all(not links.offloads(name).on for name in before)
    done(capsys, file, "--remove")
    assert {name: set(links.offloads(name).on) for name in before} == before


def test_kernel_ports_keep_offloads_and_send_buffers(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file()
    Path(file).write_text(Path(file).read_text().replace("datapath: netdev", "datapath: system"))
    commands = done(capsys, file, "--dry-run")
    assert "datapath_type=system" in commands
    assert "ethtool" not in commands
    assert sending.COMMAND[-1] not in commands


def test_a_missing_interface_is_named_and_used_when_it_appears(gateway_file: Files, capsys: Captured) -> None:
    shell("ip link delete w0")
    file = gateway_file()
    for _ in range(2):
        code, out, err = bridge(capsys, file)
        assert code == 1 and "missing  w0" in out
        (failed,) = (line for line in out.splitlines() if line.startswith("failed"))
        assert "w0 port" in failed
        assert "w0: could not open network device w0 (No such device)" in err and len(err.splitlines()) == 1
    shell("ip link add w0 type veth peer name w0-far")
    shell("ovs-vsctl --timeout=60 wait-until Interface w0 ofport=1")
    out = done(capsys, file)
    assert "changed  w0 offloads" in out
    assert "missing  w0" not in out


def test_bridge_fails_until_ovs_has_the_datapath(
    gateway_file: Files, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type goes into the database and has no effect, like on a kernel without the datapath."""
    file = gateway_file()
    config = load(file)
    monkeypatch.setattr("cli.host.load", lambda _file: config)
    for bridge_was_good in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(Datapath.NETDEV, "_value_", "nowhere")
            for _ in range(2):
                code, _, err = bridge(capsys, file)
                assert code == 1
                assert "br-home: Open vSwitch could not make it with datapath_type=nowhere" in err
            assert main(["doctor", file]) == 1
            told = capsys.readouterr().out
            assert re.search(r"^bad +bridge br-home: .*could not make it", told, re.MULTILINE)
            assert bridge_was_good or not re.search(r"^ok +(bridge br-home|\w+ port):", told, re.MULTILINE)
        out = done(capsys, file)
        assert "failed" not in out
        assert out.count("datapath_type") == 1
        assert "nothing to change" in done(capsys, file)


def test_remove_undoes_bridge_and_nothing_else(gateway_file: Files, capsys: Captured) -> None:
    shell("ovs-vsctl add-br br-other -- set Bridge br-other datapath_type=netdev")
    before = listing()
    file = gateway_file(tls=True)
    done(capsys, file)
    done(capsys, file, "--remove")
    assert listing() == before
    assert Path(file).with_name("tls").joinpath("ca.pem").exists()
    assert "nothing to change" in done(capsys, file, "--remove")


def test_remove_refuses_a_bridge_not_made_by_bicast(gateway_file: Files, capsys: Captured) -> None:
    shell("ovs-vsctl add-br br-home -- set Bridge br-home datapath_type=netdev")
    done(capsys, gateway_file())
    code, _, err = bridge(capsys, gateway_file(), "--remove")
    assert code == 1 and "not created by bicast" in err
    assert home().ports


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("ip address add 198.51.100.7/24 dev w0", "198.51.100.7/24"),
        ("ip address add 2001:db8:7::1/64 dev w0", "2001:db8:7::1/64"),
        ("ip link set w0 up && ip -6 route add default dev w0", "default route"),
        ("ip link add lan type bridge && ip link set w0 master lan", "lan"),
        (
            "ovs-vsctl add-br br-home -- set Bridge br-home datapath_type=netdev"
            " -- set-controller br-home tcp:127.0.0.9:6653",
            "tcp:127.0.0.9:6653",
        ),
        ("ovs-vsctl set-ssl /some.key /some.pem /some-ca.pem", "/some.pem"),
    ],
)
def test_bridge_refuses_to_cut_off_others_without_force(
    gateway_file: Files, capsys: Captured, before: str, named: str
) -> None:
    shell(before)
    file = gateway_file(tls=True)
    state = listing()
    code, out, err = bridge(capsys, file)
    assert (code, out) == (1, "") and named in err and "--force" in err
    assert listing() == state
    assert not Path(file).with_name("tls").exists()
    done(capsys, file, "--force")
    assert home().port("w0")


def test_an_ssh_session_is_recognised_under_sudo(
    gateway_file: Files, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("ip address add 198.51.100.7/24 dev w0 && ip link set w0 up")
    monkeypatch.setenv("SSH_CONNECTION", "198.51.100.9 40000 198.51.100.7 22")
    _, _, err = bridge(capsys, gateway_file())
    assert "ssh session" in err
    monkeypatch.delenv("SSH_CONNECTION")
    _, _, err = bridge(capsys, gateway_file())
    assert "ssh session" not in err
    with socket.create_server(("198.51.100.7", 22)) as sshd, socket.create_connection(("198.51.100.7", 22)):
        session, _ = sshd.accept()
        _, _, err = bridge(capsys, gateway_file())
        session.close()
    assert "ssh session" in err


def test_a_port_of_another_bridge_is_never_taken(gateway_file: Files, capsys: Captured) -> None:
    shell("ovs-vsctl add-br br-other -- set Bridge br-other datapath_type=netdev -- add-port br-other w0")
    code, _, err = bridge(capsys, gateway_file(), "--force")
    assert code == 1 and "ovs-vsctl del-port br-other w0" in err


def test_no_open_vswitch_is_one_sentence(
    gateway_file: Files, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVS_RUNDIR", str(tmp_path))
    code, _, err = bridge(capsys, gateway_file())
    assert (code, len(err.splitlines())) == (1, 1)
    assert "no Open vSwitch answers" in err


def test_a_dead_vswitchd_is_one_sentence(
    gateway_file: Files, capsys: Captured, ovs: PrivateOvs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.host.OVS_ANSWERS_WITHIN_S", 3)
    shell("ovs-appctl -t ovs-vswitchd exit && while test -e $OVS_RUNDIR/ovs-vswitchd.pid; do sleep 0.05; done")
    code, _, err = bridge(capsys, gateway_file())
    assert (code, len(err.splitlines())) == (1, 1)
    assert "ovs-vswitchd did not answer" in err


def test_a_bad_file_or_site_is_one_sentence(gateway_file: Files, capsys: Captured) -> None:
    for words in ((gateway_file(), "--site", "far"), ("/nowhere/gateway.yaml",)):
        code, _, err = bridge(capsys, *words)
        assert (code, len(err.splitlines())) == (1, 1)


def test_keys_are_private_and_never_overwritten(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file(tls=True)
    done(capsys, file)
    folder = Path(file).with_name("tls")
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca-signing.key",
        "ca.pem",
        "controller.key",
        "controller.pem",
        "switch-a1.key",
        "switch-a1.pem",
    ]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.glob("*.key"))
    own = f"{folder}/controller.pem {folder}/switch-a1.pem"
    shell(f"openssl verify -x509_strict -CAfile {folder}/ca.pem {own}")  # as Python 3.13 does by default
    before = {path: path.read_bytes() for path in folder.iterdir()}
    folder.joinpath("switch-a1.pem").unlink()
    folder.joinpath("switch-a1.key").unlink()
    done(capsys, file)
    kept = {path: text for path, text in before.items() if not path.name.startswith("switch")}
    assert {path: path.read_bytes() for path in kept} == kept
    assert folder.joinpath("switch-a1.pem").read_bytes() != before[folder / "switch-a1.pem"]
    for name in ("ca-signing.key", "controller.pem", "controller.key"):
        folder.joinpath(name).unlink()
    assert "nothing to change" in done(capsys, file), "a remote bridge needs the CA and its own pair only"


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        (["switch-a1.key"], "switch-a1.pem exists without"),
        (["ca.pem"], "exists without its CA"),
        (["ca-signing.key", "switch-a1.pem", "switch-a1.key"], "copy switch-a1.pem and switch-a1.key here"),
    ],
)
def test_an_incomplete_set_of_certificates_is_refused(
    gateway_file: Files, capsys: Captured, gone: list[str], named: str
) -> None:
    file = gateway_file(tls=True)
    done(capsys, file)
    for name in gone:
        Path(file).with_name("tls").joinpath(name).unlink()
    code, _, err = bridge(capsys, file)
    assert code == 1 and named in err


def test_each_bridge_gets_its_own_certificate(gateway_file: Files, capsys: Captured) -> None:
    """A person copies the certificates of other hosts there. One Open vSwitch has one for all its bridges."""
    file = Path(gateway_file(tls=True))
    written = yaml.safe_load(file.read_text())
    far = copy.deepcopy(written["sites"]["home"]) | {"dpid": "00000000000000a2", "bridge": "br-far"}
    for name in ("w0b", "l0b", "c0b"):
        shell(f"ip link add {name} type veth peer name {name}-far")
    for uplink in far["uplinks"].values():
        uplink["port"] += "b"
    far["terminals"] = {"laptop": {"addresses": [{"address": "192.168.111.3", "port": "c0b"}]}}
    far["subnets"] = {"inside": {"gateways": ["192.168.111.1/24"]}}
    written["sites"]["far"] = far
    file.write_text(yaml.safe_dump(written))
    done(capsys, str(file), "--site", "home")
    folder = file.with_name("tls")
    assert {path.name for path in folder.glob("switch*.pem")} == {"switch-a1.pem", "switch-a2.pem"}
    for number, other in (("a1", "a2"), ("a2", "a1")):
        names = shell(f"openssl x509 -in {folder}/switch-{number}.pem -noout -ext subjectAltName")
        assert f"DNS:{number:>016}" in names and f"{other:>016}" not in names
    assert "switch-a1.pem" in shell("ovs-vsctl get-ssl")
    assert "nothing to change" in done(capsys, str(file), "--site", "home")
    done(capsys, str(file), "--site", "far")
    assert "switch-a1-a2.pem" in shell("ovs-vsctl get-ssl")
    assert "nothing to change" in done(capsys, str(file), "--site", "home")


def test_a_switch_key_cannot_impersonate_the_controller(gateway_file: Files, capsys: Captured) -> None:
    file = gateway_file(tls=True)
    done(capsys, file)
    config = load(file)
    assert config.settings.tls is not None
    switch = tls.files(config.settings.tls, config, config.sites, None).switch
    pretender = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pretender.load_cert_chain(switch.certificate, switch.key)
    with socket.create_server(("127.0.0.1", 6653)) as listener:
        listener.settimeout(60)
        raw, _ = listener.accept()
        raw.settimeout(60)
        with pytest.raises(ssl.SSLError), pretender.wrap_socket(raw, server_side=True) as connection:
            connection.recv(8)


@pytest.mark.parametrize("within_s", [60, pytest.param(3, marks=pytest.mark.timed)])
def test_a_bridge_reconnects_to_a_returning_controller(gateway_file: Files, within_s: int) -> None:
    """Open vSwitch alone waits 1, 2, 4, then 8 s before it tries again."""
    file = gateway_file()
    bridge = subprocess.Popen([ROOT / "bicast", "bridge", file, "--follow"], stdout=subprocess.PIPE, text=True)
    with socket.create_server(("127.0.0.1", 6653)) as listener, bridge:
        listener.settimeout(60)
        connection, _ = listener.accept()
        connection.settimeout(60)
        connection.sendall(bytes([4, 0, 0, 8, 0, 0, 0, 1]))  # OFPT_HELLO
        assert bridge.stdout is not None
        assert next(line for line in bridge.stdout if line.startswith("connected")) == "connected  br-home\n"
        listener.settimeout(within_s)
        for _ in range(4):
            connection.close()
            connection, _ = listener.accept()
        connection.close()
        bridge.kill()
    assert "nothing to change" in shell(f"./bicast bridge {file}")


def test_bridge_uses_only_the_ovs_of_ovs_rundir(
    gateway_file: Files, capsys: Captured, ovs: PrivateOvs, tmp_path: Path
) -> None:
    with PrivateOvs(tmp_path / "second"):
        done(capsys, gateway_file())
        assert ovs.directory != Path(os.environ["OVS_RUNDIR"])
        assert shell("ovs-vsctl list-br").split() == ["br-home"]
    assert shell("ovs-vsctl list-br").split() == []


@pytest.mark.parametrize("over", ["tls", "socket"])
def test_a_prepared_bridge_connects_and_reconnects_after_a_kill(
    gateway_file: Files, capsys: Captured, tmp_path: Path, over: str
) -> None:
    path = tmp_path / "run" / "openflow.sock"
    file = gateway_file(tls=True) if over == "tls" else gateway_file(local=path)
    text = Path(file).read_text().replace("controller:\n", f"controller:\n  state: {tmp_path}/state.json\n")
    Path(file).write_text(text)
    done(capsys, file)
    target, place = {
        "tls": ("ssl:127.0.0.1:6653", "OpenFlow port 127.0.0.1:6653"),
        "socket": ("unix:bicast.sock", f"OpenFlow socket {path}"),
    }[over]
    assert [each.target for each in home().controllers] == [target]
    assert "nothing to change" in done(capsys, file)
    for end in (subprocess.Popen.kill, subprocess.Popen.terminate):
        with subprocess.Popen([ROOT / "bicast", "run", file], stderr=subprocess.DEVNULL) as controller:
            try:
                shell("ovs-vsctl --timeout=60 wait-until Controller br-home is_connected=true")
                assert main(["doctor", file]) == 0
            finally:
                end(controller)
        told = capsys.readouterr().out
        assert f"{place}: in use by process" in told
        assert "br-home connection: connected" in told
        shell("ovs-vsctl --timeout=60 wait-until Controller br-home is_connected=false")
    assert not path.exists()
