# SPDX-License-Identifier: Apache-2.0
"""Run commands; errors name the command, its place and its output."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

Done = subprocess.CompletedProcess[str]


class CommandFailed(Exception):
    """Report a command that is missing, timed out or failed."""


def run(
    *argv: str,
    where: str = "",
    prefix: Sequence[str] = (),
    given: str | None = None,
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    check: bool = True,
) -> Done:
    """Run `argv` behind `prefix`; errors call the place `where`."""
    place = f"{where}: " if where else ""
    try:
        done = subprocess.run(
            [*prefix, *argv], input=given, capture_output=True, text=True, timeout=timeout_s, env=environment
        )
    except FileNotFoundError as error:
        raise CommandFailed(
            f"{place}{error.filename} is not installed; `make setup` installs what is missing"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{place}`{' '.join(argv)}` did not end within {timeout_s} s") from error
    if check and done.returncode != 0:
        output = (done.stderr or done.stdout).strip() or "nothing"
        raise CommandFailed(f"{place}`{' '.join(argv)}` ended with {done.returncode} and printed: {output}")
    return done
