# SPDX-License-Identifier: Apache-2.0
"""`doctor`: a gateway's missing requirements and their repairs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from cli import OK, REFUSED
from cli.host import add_site, chosen, need_root
from gateway.doctor import examine
from gateway.finding import Finding, State
from gateway.scene import CheckContext


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="find what this machine lacks, with the command that fixes it",
        description="Check this machine: programs and their versions, kernel features, reverse path filters, "
        "return routes, MPTCP settings; with FILE also its bridges, their ports, the controller's ports, firewalls, "
        "and TLS files. Nothing is changed. Each problem is shown with the command that fixes "
        "it. Exit code 1 when something is bad, 0 otherwise.",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="a gateway.yaml, to check what it names too")
    add_site(parser)
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")


def run(args: argparse.Namespace) -> int:
    need_root("doctor")
    context = CheckContext(args.file, *chosen(args.file, args.site)) if args.file else CheckContext()
    findings = []
    for finding in examine(context):
        findings.append(finding)
        if not args.json:
            print(_text(finding), flush=True)
    if args.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], **_counts(findings)}))
    else:
        print(", ".join(f"{count} {state}" for state, count in _counts(findings).items()))
    return REFUSED if any(finding.state is State.BAD for finding in findings) else OK


def _counts(findings: Iterable[Finding]) -> dict[str, int]:
    states = [finding.state for finding in findings]
    return {state.value: states.count(state) for state in State}


def _text(finding: Finding) -> str:
    first = f"{finding.state.value:8} {finding.name}: {finding.found}"
    if finding.state is State.OK:
        return first
    mend = f"\n         fix: {finding.mend}" if finding.mend else ""
    return f"{first}\n         expected: {finding.expected}{mend}"
