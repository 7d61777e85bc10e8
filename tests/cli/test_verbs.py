# SPDX-License-Identifier: Apache-2.0
"""Each verb prints its result or the error, and returns the exit code for it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from cli import OK, PARTLY, REFUSED, UNREACHABLE, USAGE
from cli.__main__ import VERBS, main
from cli.render import RENDERED_HERE
from controller.edges.config.load import load
from controller.edges.http.app import make_app
from controller.edges.http.server import serve
from controller.edges.runtime.version import VERSION
from controller.model.config import Mode
from controller.protocol.requests import OverrideResult
from controller.switches.switch import GatewayState
from tests.cli.conftest import Printed
from tests.controller import relayed_site
from tests.controller.edges.http import fake_core as desk_module
from tests.controller.edges.http.fake_core import HOME, METERED, SETTINGS, START, TOKEN, TUNNELLED, FakeCore

Captured = pytest.CaptureFixture[str]

ROOT = Path(__file__).parents[2]
GOOD = """\
sites:
  home:
    dpid: "0000000000000001"
    bridge: br-home
    uplinks:
      wifi:
        port: gw-wifi
        addresses: [192.168.100.2/24]
        next_hops: [{address: 192.168.100.1}]
    subnets:
      inside: {gateways: [192.168.110.2/24]}
    terminals:
      client:
        addresses: [{address: 192.168.110.3, port: gw-c1}]
"""


def _sentence(captured: Captured) -> str:
    """Return the error. It must be one line, and the only output."""
    out, err = captured.readouterr()
    assert out == ""
    assert err.startswith("bicast: ") and err.count("\n") == 1
    return err


def test_mode_and_switch_print_the_result(api: str, fake_core: FakeCore, printed: Printed) -> None:
    assert printed("mode", "client", "single") == "client is now in mode single\n"
    assert printed("switch", "client", "lte") == "client is now on lte\n"
    assert printed("switch", "client", "lte") == "client is already on lte\n"
    assert printed("mode", "all", "off") == "client is now in mode off\ntablet is now in mode off\n"
    assert {one.mode for one in fake_core.snapshot.terminals} == {"off"}
    assert printed("mode", "client", "file") == "client follows gateway.yaml\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["mode", "phone", "off"], "client, tablet"),
        (["mode", "client/games", "off"], "no class is named 'games' at home; there is none"),
        (["mode", "client/", "off"], "no resource at"),
        (["mode", "../mode", "off"], "no terminal is named '..'"),
        (["switch", "client", "moon"], "wifi, lte"),
        (["switch", "all", "lte"], "`./bicast mode all MODE`"),
    ],
)
def test_a_refused_override_is_one_sentence_and_exit_code_1(
    api: str, fake_core: FakeCore, capsys: Captured, words: list[str], named: str
) -> None:
    assert main(words) == REFUSED
    assert named in _sentence(capsys)
    assert fake_core.snapshot is START


@pytest.mark.parametrize(
    ("there", "named"),
    [
        (("client", "tablet"), "; there are: client, tablet"),
        (tuple(f"phone-{number}" for number in range(250)), "among the 250 known; did you mean phone-3"),
        (tuple(f"{number:03}" for number in range(250)), "among the 250 known; none has a similar name"),
    ],
)
@pytest.mark.parametrize("words", [["mode", "phnoe-3", "off"], ["why", "phnoe-3"]])
def test_an_unknown_terminal_is_refused_with_the_nearest_names(
    api: str, fake_core: FakeCore, capsys: Captured, words: list[str], there: tuple[str, ...], named: str
) -> None:
    fake_core.snapshot = replace(START, terminals=tuple(replace(START.terminals[0], name=name) for name in there))
    assert main(words) == REFUSED
    assert f"no terminal is named 'phnoe-3'{'' if named[0] == ';' else ' '}{named}" in _sentence(capsys)


@pytest.mark.parametrize(
    "words",
    [
        *(
            "",
            "fly",
            "mode client fast",
            "mode client",
            "status --jso",
            "relay list --js",
            "experiment transfer --quick --full",
        ),
        *(f"measure lte --link={rate}" for rate in ("0", "-3", "nan", "inf", "fast")),
        *("bandwidth path.csv --link=0", "bandwidth path.csv --link=nan", "bandwidth path.csv --alpha=inf"),
    ],
)
def test_a_wrong_or_abbreviated_command_line_is_exit_code_2(words: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as end:
        main(words.split())
    assert end.value.code == USAGE
    assert "usage: bicast" in capsys.readouterr().err


@pytest.mark.parametrize("api", ["ftp://x", "localhost:port", "127.0.0.1:", "::1", "[::1", "http://127.0.0.1/other"])
def test_a_wrong_address_is_exit_code_2(api: str, capsys: Captured) -> None:
    assert main(["status", "--api", api]) == USAGE
    assert "127.0.0.1:8653" in _sentence(capsys)


def test_no_controller_is_exit_code_3(capsys: Captured) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
    assert main(["status", "--api", nobody]) == UNREACHABLE
    complaint = _sentence(capsys)
    assert nobody in complaint and "./bicast run" in complaint


def test_a_controller_whose_core_hangs_is_exit_code_3(api: str, fake_core: FakeCore, capsys: Captured) -> None:
    fake_core.silent = True
    assert main(["mode", "all", "off"]) == UNREACHABLE
    assert "did not answer" in _sentence(capsys)


def test_another_http_server_is_no_controller(capsys: Captured, tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as other:
        assert other.stdout is not None
        port = other.stdout.readline().split(" port ")[1].split()[0]
        code = main(["status", "--api", f"127.0.0.1:{port}"])
        other.kill()
    assert code == UNREACHABLE
    assert "not a bicast controller" in _sentence(capsys)


def test_the_token_is_taken_from_the_environment_or_a_file(
    fake_core: FakeCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    running = serve(make_app(fake_core.read, fake_core.program, fake_core.decisions, fake_core, TOKEN), SETTINGS)
    words = ["mode", "client", "off", "--api", str(running.endpoint)]
    monkeypatch.delenv("BICAST_TOKEN", raising=False)
    try:
        assert main(words) == REFUSED
        assert "--token-file" in _sentence(capsys)
        assert main([*words, "--token-file", str(file)]) == OK
        monkeypatch.setenv("BICAST_TOKEN", TOKEN)
        assert main(words) == OK
        monkeypatch.setenv("BICAST_TOKEN", f"{TOKEN}\r\nX: y")
        capsys.readouterr()
        assert main(words) == USAGE
        assert "BICAST_TOKEN" in _sentence(capsys)
        assert main([*words, "--token-file", str(tmp_path / "none")]) == USAGE
        assert "none" in _sentence(capsys)
    finally:
        running.stop()


def test_status_shows_every_gateway_uplink_and_terminal(api: str, fake_core: FakeCore, printed: Printed) -> None:
    printed("mode", "tablet", "off")
    lines = [line.split() for line in printed("status").splitlines() if line]
    starts = [line[:3] for line in lines]
    assert ["home", "0000000000000001", "steady"] in starts
    assert ["wifi", "home", "gw-wifi"] in starts
    assert ["client", "home", "bicast"] in starts
    assert ["tablet", "home", "off*"] in starts
    assert ["home", "lte", "4", "98", "2", "0", "0", "20", "ms", "tcp"] in lines, "what became of copies"
    (lte,) = [line for line in lines if line[0] == "lte"]
    assert lte[3] == "down" and lte[-4:] == ["3002", "1002", "4000", "2000"]


def test_status_lists_tunnels_and_budgets_and_warns_of_them(api: str, fake_core: FakeCore, printed: Printed) -> None:
    fake_core.snapshot = replace(START, gateways=(TUNNELLED, METERED))
    told = printed("status")
    warnings = told.split("\n\n")[0]
    assert "! home: lte: its tunnel is down: nobody is heard" in warnings
    assert "! home: eth2: senders do not learn the longest packet size: it has an XDP program already" in warnings
    assert "! home: lte: no copies are sent over it: used up until 00:00" in warnings
    assert "! home: lte: its tunnel is not encrypted (`encryption: none`)" in warnings
    lines = [line.split() for line in told.splitlines()]
    assert ["lte", "home", "down", "192.0.2.7:61234", "4.2", "s", "ago", "8.5", "ms", "1380", "2"] in lines
    assert ["lte", "home", "99.9", "100.0", "day", "12%", "25%"] in lines


@pytest.mark.parametrize(
    ("state", "number", "up", "shown"),
    [("absent", None, False, "-"), ("steady", None, False, "missing"), ("steady", 1, False, "down")],
)
def test_status_shows_no_state_for_an_unseen_link(
    api: str, fake_core: FakeCore, printed: Printed, state: str, number: int | None, up: bool, shown: str
) -> None:
    uplink = replace(HOME.uplinks[0], number=number, up=up)
    fake_core.snapshot = replace(START, gateways=(replace(HOME, state=GatewayState(state), uplinks=(uplink,)),))
    (line,) = [line.split() for line in printed("status").splitlines() if line.startswith("wifi")]
    assert line[3] == shown


def test_status_prints_warnings_first(api: str, fake_core: FakeCore, printed: Printed) -> None:
    up = HOME.uplinks[:1]
    refusing = replace(HOME, state=GatewayState.REFUSED, last_error="group client bicast: refused", uplinks=up)
    portless = replace(refusing, name="barn", uplinks=(replace(up[0], number=None, up=False),), conflicts=())
    claimed = replace(HOME, name="loft", rival="192.0.2.9:40000", uplinks=up, conflicts=(), copies=None)
    gateways = (refusing, replace(portless, copies=None), START.gateways[1], claimed)
    fake_core.snapshot = replace(START, gateways=gateways, config_failures=1, config_error="sites.home.dpid: found 'x'")
    warnings = printed("status").split("\n\n")[0].splitlines()
    assert all(line.startswith("! ") for line in warnings)
    for named in ("sites.home.dpid", "client bicast: refused", "lte: no copies arrive "
        "over it", "copies cannot be identified for 3%",
                  "table=0,priority=10", "no port gw-wifi", "0000000000000002", "192.0.2.9:40000",
                  "relay-1 cannot clamp", "agent client: it is connected but has not reported"):  # fmt: skip
        assert any(named in line for line in warnings), named


def test_status_names_the_controller_and_a_version_mismatch(api: str, fake_core: FakeCore, printed: Printed) -> None:
    assert printed("status").splitlines()[-1] == f"controller {VERSION}, {START.config_path}"
    fake_core.snapshot = replace(START, version="0.9.0")
    assert f"! the controller runs version 0.9.0, this command is {VERSION}" in printed("status")


def test_status_names_the_substitute_for_a_down_uplink(api: str, fake_core: FakeCore, printed: Printed) -> None:
    wifi, lte = HOME.uplinks
    client, tablet = (replace(one, active_uplink="lte") for one in START.terminals)
    fake_core.snapshot = replace(START, gateways=(HOME,), terminals=(client, replace(tablet, mode=Mode.OFF)))
    told = printed("status")
    complaint = "! home: lte: its port gw-lte is down; meanwhile wifi carries client; meanwhile nothing carries tablet"
    assert complaint in told.splitlines()
    assert re.search(r"^client .* lte \(down; on wifi\) ", told, re.MULTILINE)
    assert re.search(r"^tablet .* lte \(down; on nothing\) ", told, re.MULTILINE)
    fake_core.snapshot = replace(fake_core.snapshot, gateways=(replace(HOME, uplinks=(wifi, replace(lte, up=True))),))
    assert "meanwhile" not in (told := printed("status")) and "; on " not in told


def test_why_shows_reasons_health_and_results_of_both_agents(api: str, capsys: Captured, printed: Printed) -> None:
    told = printed("why", "client")
    for part in (
        "client is on lte: policies chose it",
        "\nit is in mode auto, with copies since 20",
        "tcp: 1200 copied, 30 not; everything else: 0 copied, 3000 not\n",
        "policies: copies begin\n    because lte: 6.1% of 300 packets lost",
        "its connections are moved by relay-1",
        "\n3 MPTCP connections at relay-1: 3 backup on wifi, round trip 41.3 ms; 2 active and 1 backup on lte\n",
        "\narmed at relay-1: from lte to wifi after 200 ms without progress\n",
        "\nwas armed at client, which is silent: from lte to wifi after 150 ms without progress; its lease ends at 20",
        "\nits own end is reported by nobody: agent client is silent\n",
        "lte is good\n    as reported by relay-1, client\n",
        "    relay-1: it is active (reached 3 connections in 140 us, 2 orders)",
        "gateway home: 2 groups modified (not confirmed yet)",
        "no agent can move its connections: none of its connections was ordered to move",
    ):
        assert part in told
    assert told.index("policies: from wifi to lte") < told.index("somebody: from lte to wifi")
    assert main(["why", "nobody"]) == REFUSED
    assert "client, tablet" in _sentence(capsys)


def test_budget_reset_prints_the_result(api: str, fake_core: FakeCore, printed: Printed) -> None:
    assert printed("budget", "reset", "home/lte") == "lte of home has used nothing of its budget\n"
    assert fake_core.budgets_set == [("home", "lte", 0)]


@pytest.mark.parametrize(("uplink", "code"), [("lte", USAGE), ("home/", USAGE), ("home/dsl", REFUSED)])
def test_budget_reset_refuses_an_uplink_that_is_not_there(
    api: str, fake_core: FakeCore, capsys: Captured, uplink: str, code: int
) -> None:
    assert main(["budget", "reset", uplink]) == code
    assert _sentence(capsys)
    assert not fake_core.budgets_set


@pytest.mark.parametrize(("verb", "method"), [("switch", "set_active"), ("mode", "set_mode")])
def test_a_partial_failure_of_agents_is_exit_code_4(
    api: str, fake_core: FakeCore, capsys: Captured, monkeypatch: pytest.MonkeyPatch, verb: str, method: str
) -> None:
    answer = OverrideResult(("client is so",), True, 2, ("relay-1 could not: it stays backup",))
    monkeypatch.setattr(fake_core, method, lambda *_: answer)
    words = [verb, "client", {"switch": "lte", "mode": "single"}[verb]]
    assert main(words) == PARTLY
    assert capsys.readouterr() == ("client is so\n", "bicast: relay-1 could not: it stays backup\n")
    assert main([*words, "--json"]) == PARTLY
    told = json.loads(capsys.readouterr().out)
    assert (told["done"], told["failed"]) == (["client is so"], ["relay-1 could not: it stays backup"])


def test_long_agent_messages_are_cut_except_in_json(
    api: str, fake_core: FakeCore, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = "; ".join(f"subflow 192.0.2.{number} of connection {number:08x} is active" for number in range(40))
    course = desk_module.COURSE
    outcome = replace(course.decisions[0].outcomes[1], answer=answer)
    decision = replace(course.decisions[0], outcomes=(outcome,))
    monkeypatch.setattr(desk_module, "COURSE", replace(course, decisions=(decision,)))
    monkeypatch.setattr(fake_core, "set_active", lambda *_: OverrideResult(("client is now on lte", answer), True, 2))
    for words in (["switch", "client", "lte"], ["why", "client"]):
        told = printed(*words)
        assert max(map(len, told.splitlines())) < 590
        shown = told[told.index("subflow") : told.index(" …")]
        assert set(shown.split()) <= set(answer.split()) and len(shown) > 450
        assert "`./bicast why client --json`" in told
        assert answer in printed(*words, "--json")


def test_check_and_status_warn_of_plain_tcp(api: str, fake_core: FakeCore, tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("controller: {openflow: {listen: 127.0.0.1:6653}}\n" + GOOD)
    assert "plain TCP at 127.0.0.1:6653 does not authenticate the controller" in printed("check", str(file))
    unproven = load(str(file)).settings.unproven
    fake_core.snapshot = replace(fake_core.snapshot, openflow_unproven=unproven)
    assert "plain TCP at 127.0.0.1:6653 does not authenticate the controller" in printed("status")


def test_check_counts_relayed_terminals_and_render_refuses_them(
    tmp_path: Path, capsys: Captured, printed: Printed
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps(relayed_site.document()))
    told, *_, good = printed("check", str(file)).splitlines()
    assert told == f"{file}: home: 2 uplinks, 3 subnets, 3 terminals, 2 relayed terminals"
    assert good == f"{file} is valid"
    verdict = json.loads(printed("check", str(file), "--json"))
    assert verdict["good"] and verdict["gateways"]["home"]["terminals"] == 3
    assert main(["render", str(file), "--into", str(tmp_path)]) == REFUSED
    assert "relaying needs a controller and an agent; remove `relaying`" in capsys.readouterr().err


def test_check_remarks_on_unused_access_points_and_relaying(tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "gateway.yaml"
    written = relayed_site.document()
    home = written["sites"]["home"]
    home["access_points"] = {"attic": {"rule": "ideal"}, "air": {"rule": "ideal"}}
    for terminal in home["terminals"].values():
        terminal |= {"relayed": False, "access_point": "air"}
    file.write_text(json.dumps(written))
    told = printed("check", str(file))
    assert "sites.home.access_points.attic: no terminal has `access_point: attic`" in told and "air:" not in told
    assert "sites.home.relaying: no terminal has `relayed: true`" in told and "is valid" in told
    assert "sites.home: no address in `reach`: without an agent" in told
    assert "sites.home.terminals: packets of client, phone, laptop are copied, but no peer site mirrors home" in told


def test_check_remarks_when_copies_have_no_peer_site(tmp_path: Path, printed: Printed) -> None:
    """The file is the example of docs/how-to/home.md."""
    page = (ROOT / "docs/how-to/home.md").read_text()
    file = tmp_path / "gateway.yaml"
    file.write_text(page[page.index("```yaml\n") + 8 :].partition("```")[0])
    _, remark, good = printed("check", str(file)).splitlines()
    assert "sites.home: nothing is copied, because no peer site mirrors it" in remark and good == f"{file} is valid"
    file.write_text(file.read_text().replace("mode: single", "mode: auto"))
    _, remark, _ = printed("check", str(file)).splitlines()
    assert "packets of television are copied" in remark and "reset these connections" in remark


def test_check_names_file_place_value_and_expectation(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(GOOD.replace('"0000000000000001"', "seven"))
    assert main(["check", str(file)]) == REFUSED
    assert f"{file}: sites.home.dpid: found 'seven', expected a datapath id of 16 hex" in _sentence(capsys)
    assert main(["check", str(file), "--json"]) == REFUSED
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["good"], verdict["where"], verdict["value"]) == (False, "sites.home.dpid", "seven")


@pytest.mark.parametrize("verb", VERBS)
def test_every_listed_verb_exists_and_has_help(verb: str, capsys: Captured) -> None:
    assert callable(import_module(VERBS[verb][0]).run)
    with pytest.raises(SystemExit) as end:
        main([verb, "--help"])
    assert end.value.code == OK
    assert f"usage: bicast {verb}" in capsys.readouterr().out


def test_a_closed_output_pipe_is_no_error(api: str, fake_core: FakeCore) -> None:
    fake_core.snapshot = replace(START, terminals=START.terminals * 2000)
    run = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$0" -m cli status --json | head -n 1', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr, run.returncode) == ("{\n", "", 141)


def test_render_names_every_missing_mac(tmp_path: Path, capsys: Captured) -> None:
    text = RENDERED_HERE[0].read_text()
    for place in ("    mac: 08:00:27:81:6b:cf\n", ", mac: 08:00:27:e1:9e:e3", ", mac: 08:00:27:ec:c0:04"):
        assert place in text
        text = text.replace(place, "\n" if place.endswith("\n") else "")
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    assert main(["render", "--into", str(tmp_path / "made"), str(file)]) == REFUSED
    told = _sentence(capsys)
    for what in ("of uplink wifi;", "of next hop 192.168.200.1 of uplink lte;", "of 192.168.210.3 of terminal client"):
        assert f"the `mac` {what}" in told
    assert not (tmp_path / "made").exists()
