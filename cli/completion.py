# SPDX-License-Identifier: Apache-2.0
"""Complete a command line, also with names known to the controller."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

import argcomplete
from argcomplete.completers import BaseCompleter, FilesCompleter

from cli import Failure
from cli.client import api_client
from controller.model.config import AUTO, EVERYBODY


def words() -> list[str]:
    line = os.environ["COMP_LINE"]
    return line[: int(os.environ["COMP_POINT"])].split()[1:]


def complete(parser: argparse.ArgumentParser) -> None:
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=_Names())


class _Names(BaseCompleter):
    """Completes with names from the controller's status, or else with files."""

    def __call__(
        self, *, prefix: str, action: argparse.Action, parsed_args: argparse.Namespace, **_: Any
    ) -> Iterable[str]:
        if action.dest not in ("terminal", "uplink"):
            return FilesCompleter()(prefix)
        try:
            with api_client(parsed_args) as client:
                status = client.get("status")
        except Failure:
            return ()
        if action.dest == "terminal":
            everybody = [EVERYBODY] if parsed_args.verb == "mode" else []
            return everybody + [one["name"] for one in status["terminals"]]
        of_gateways = [(each["name"], one["name"]) for each in status["gateways"] for one in each["uplinks"]]
        if parsed_args.verb == "budget":
            return [f"{gateway}/{uplink}" for gateway, uplink in of_gateways]
        return [AUTO] * (parsed_args.verb == "switch") + [uplink for _, uplink in of_gateways]
