# SPDX-License-Identifier: Apache-2.0
"""List the licences of Python, Go and Debian dependencies.

    make licences

"run" marks dependencies of a running controller or agent, "build" those of building and testing alone. An unknown
licence is a failure.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parent.parent
UNKNOWN = "unknown"
# A phrase of this licence's text alone, in order: the BSD licences share their first clauses.
PHRASES = {
    "Apache License": "Apache-2.0",
    "Mozilla Public License Version 2.0": "MPL-2.0",
    "Neither the name": "BSD-3-Clause",
    "Redistributions in binary form": "BSD-2-Clause",
    "Permission is hereby granted, free of charge": "MIT",
}


class Dependency(NamedTuple):
    kind: str
    use: str
    name: str
    version: str
    licence: str


def python_packages() -> Iterator[Dependency]:
    run = closure(TREE / "requirements.txt")
    for name in sorted(run | closure(TREE / "requirements-dev.txt")):
        package = distribution(name)
        yield Dependency("python", "run" if name in run else "build", name, package.version, python_licence(package))


def closure(requirements: Path) -> set[str]:
    found: set[str] = set()
    wanted = [line for line in requirements.read_text().splitlines() if line[:1].isalpha()]
    while wanted:
        requirement = wanted.pop()
        matched = re.match(r"[\w.-]+", requirement)
        if matched is None or "extra ==" in requirement:
            continue
        name = re.sub(r"[-_.]+", "-", matched[0]).lower()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform or Python version
        if name not in found:
            found.add(name)
            wanted += package.requires or []
    return found


def python_licence(package: Distribution) -> str:
    """Return the SPDX expression, else the classifiers, else the first line."""
    metadata = package.metadata
    classifiers = [
        each.split(" :: ")[-1] for each in metadata.get_all("Classifier") or [] if each.startswith("License")
    ]
    expressions = metadata.get_all("License-Expression") or [", ".join(classifiers)]
    texts = metadata.get_all("License") or [UNKNOWN]
    return str(expressions[0] or texts[0].splitlines()[0])


def go_modules() -> Iterator[Dependency]:
    template = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
    run = go_list(template, "./agent")
    for line in sorted(run | go_list(template, "./...", "tool")):
        path, version, directory = line.split()
        files = (Path(directory) / each for each in ("LICENSE", "LICENSE.md", "COPYING"))
        text = next((each.read_text() for each in files if each.exists()), "")
        licence = next((name for phrase, name in PHRASES.items() if phrase in text), UNKNOWN)
        yield Dependency("go", "run" if line in run else "build", path, version, licence)


def go_list(template: str, *packages: str) -> set[str]:
    command = [str(TREE / "setup/go.sh"), "list", "-deps", "-f", template, *packages]
    return set(subprocess.run(command, cwd=TREE, check=True, capture_output=True, text=True).stdout.splitlines()) - {""}


def debian_packages() -> Iterator[Dependency]:
    run = debian_names("gateway")
    for name in sorted(run | debian_names("*")):
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
        copyright_file = Path("/usr/share/doc") / name / "copyright"
        if asked.returncode == 0:
            text = copyright_file.read_text() if copyright_file.exists() else ""
            found = set(re.findall(r"^License: *(\S.*)$", text, re.MULTILINE))
            licence = ", ".join(sorted(found)) or f"see {copyright_file}"
            yield Dependency("debian", "run" if name in run else "build", name, asked.stdout, licence)


def debian_names(file: str) -> set[str]:
    lines = [line for path in (TREE / "setup/packages").glob(f"{file}.txt") for line in path.read_text().splitlines()]
    return {line.rstrip("?") for line in lines if line[:1].isalpha()}


def main() -> int:
    listed = [*python_packages(), *go_modules(), *debian_packages()]
    for each in listed:
        print(f"{each.kind:7} {each.use:6} {each.name:46} {each.version:40} {each.licence}")
    unknown = [each.name for each in listed if each.licence == UNKNOWN]
    if unknown:
        print(f"licences: no licence found for {', '.join(unknown)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
