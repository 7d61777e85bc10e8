# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/cli.md and docs/reference/metrics.md from the code.

make reference
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from cli.__main__ import VERBS, WholeWords

TREE = Path(__file__).resolve().parent.parent
COMMANDS = TREE / "docs/reference/cli.md"
METRICS = TREE / "docs/reference/metrics.md"
AGENT = TREE / "build/bicast-agent"
METRIC_SOURCES = ("metrics.py", "access_control.py", "routes.py")
KINDS = {"CounterMetricFamily": "counter", "GaugeMetricFamily": "gauge", "HistogramMetricFamily": "histogram"}
GENERATED = "<!-- `make reference` writes this page from the code. -->"


def commands() -> str:
    lines = [
        "# Commands",
        "",
        GENERATED,
        "",
        "`./bicast` has one verb for each task. `bicast-agent` runs on hosts without the controller.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        "| 0 | success |",
        "| 1 | negative result, or refused |",
        "| 2 | wrong command line |",
        "| 3 | the controller does not answer |",
        "| 4 | the switch changed, but an agent failed or the state could not be saved |",
        "| 130 | Ctrl-C |",
        "",
    ]
    for verb in VERBS:
        parsers = WholeWords(prog="./bicast").add_subparsers()
        import_module(VERBS[verb][0]).add(parsers)
        lines += described(parsers.choices[verb], VERBS[verb][1])
    lines += ["## bicast-agent", "", *preformatted("--help")]
    for verb in re.findall(r"^  (\w+) ", "\n".join(agent_help("--help")), re.MULTILINE):
        if verb != "version":
            lines += [f"## bicast-agent {verb}", "", *preformatted(verb, "--help")]
    return "\n".join(lines)


def described(parser: argparse.ArgumentParser, summary: str, level: str = "##") -> list[str]:
    below: list[str] = []
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                help_of = next((one.help for one in action._choices_actions if one.dest == name), "")
                below += described(each, help_of or "", "###")
        elif not isinstance(action, argparse._HelpAction):
            default = () if action.nargs == 0 else action.choices or (action.dest,)
            value = action.metavar or "|".join(default)
            words = [", ".join(action.option_strings), value if isinstance(value, str) else " ".join(value)]
            cells = (f"`{' '.join(words).strip()}`", action.help or "")
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    title = parser.prog.removeprefix("./")
    section = [f"{level} {title}", "", f"{summary[:1].upper()}{summary[1:]}.", ""]
    if rows:
        section += ["| argument | meaning |", "|---|---|", *rows, ""]
    return [*section, *below]


def agent_help(*words: str) -> list[str]:
    done = subprocess.run([AGENT, *words], capture_output=True, text=True)
    return [line.rstrip() for line in (done.stdout + done.stderr).strip().splitlines()]


def preformatted(*words: str) -> list[str]:
    return ["```", *agent_help(*words), "```", ""]


def metrics() -> str:
    lines = [
        "# Metrics",
        "",
        GENERATED,
        "",
        "The controller serves these metrics at `/metrics` of the HTTP API, in the format of Prometheus. The request",
        "needs the API's token. A counter's name ends with `_total` on the wire.",
        "",
        "| metric | kind | meaning |",
        "|---|---|---|",
        *sorted(set(found_metrics())),
    ]
    return "\n".join(lines) + "\n"


def found_metrics() -> Iterator[str]:
    for name in METRIC_SOURCES:
        for node in ast.walk(ast.parse((TREE / "controller/edges/http" / name).read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if node.func.id == "_Traffic":
                yield f"| `{texts[0]}_packets` | counter | Packets through {texts[1]} |"
                yield f"| `{texts[0]}_bytes` | counter | Bytes through {texts[1]} |"
            if node.func.id in KINDS and len(texts) == 2:
                yield f"| `{texts[0]}` | {KINDS[node.func.id]} | {texts[1]} |"
            if node.func.id == "RelayMetric" and len(texts) == 3:
                gauge = any(each.arg == "counts" for each in node.keywords)
                yield f"| `{texts[1]}` | {'gauge' if gauge else 'counter'} | {texts[2]} |"


def main() -> None:
    COMMANDS.write_text(commands(), encoding="utf-8")
    METRICS.write_text(metrics(), encoding="utf-8")


if __name__ == "__main__":
    main()
