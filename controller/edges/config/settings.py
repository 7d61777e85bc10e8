# SPDX-License-Identifier: Apache-2.0
"""The settings of the controller."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

from controller.edges.config.checks import listeners_apart, once
from controller.edges.config.document import Node
from controller.model.settings import AgentService, Endpoint, LocalSocket, MutualTls, Settings, Tls

DEFAULT_OPENFLOW = LocalSocket("/run/bicast-controller/openflow.sock")
DEFAULT_API = Endpoint("127.0.0.1", 8653)
DEFAULT_STATE = "/var/lib/bicast/state.json"
DEFAULT_AGENTS = AgentService(Endpoint("127.0.0.1", 8655), Endpoint("127.0.0.1", 8656), "/var/lib/bicast/agents")


def settings_of(place: Node) -> Settings:
    keys = place.mapping("openflow", "api", "state", "agents")
    nothing = Node(place.file, place.where, {})
    openflow_place = keys.maybe("openflow", lambda inner: inner, nothing)
    openflow = openflow_place.mapping("listen", "tls")
    api_place = keys.maybe("api", lambda inner: inner, nothing)
    api = api_place.mapping("listen", "token_file", "reader_token_file", "tls")
    settings = Settings(
        openflow=openflow.maybe("listen", Node.listener, DEFAULT_OPENFLOW),
        tls=openflow.maybe("tls", _mutual_tls, None),
        api=api.maybe("listen", Node.endpoint, DEFAULT_API),
        token_file=api.maybe("token_file", Node.path, None),
        state_file=keys.maybe("state", _file, DEFAULT_STATE),
        agents=keys.maybe("agents", _agents, None),
        reader_token_file=api.maybe("reader_token_file", Node.path, None),
        api_tls=api.maybe("tls", _tls, None),
    )
    if settings.reader_token_file is not None and settings.reader_token_file == settings.token_file:
        raise api["reader_token_file"].wrong("another file than `token_file`: its token may do everything")
    if isinstance(settings.openflow, LocalSocket):
        if settings.tls is not None:
            raise openflow["tls"].wrong("an address and port in `listen`: a Unix socket has no TLS")
    elif not ip_address(settings.openflow.host).is_loopback and settings.tls is None:
        raise openflow["listen"].wrong("a loopback address, or `tls` beside it: other hosts must authenticate")
    if not ip_address(settings.api.host).is_loopback and None in (settings.token_file, settings.api_tls):
        raise api["listen"].wrong(
            "a loopback address, or `token_file` and `tls` beside it: other hosts must authenticate, and nobody may "
            "read the token on its way"
        )
    listeners_apart(listeners(settings, place.where), place.file)
    if settings.agents is not None:
        kept = (
            (f"{place.where}.state", settings.state_file),
            (f"{place.where}.agents.directory", settings.agents.directory),
        )
        once(kept, place.file, "a path of its own")
        if Path(settings.agents.directory) in Path(settings.state_file).parents:
            raise keys["state"].wrong(f"a file outside {settings.agents.directory}, which holds the agents' keys")
    return settings


def listeners(settings: Settings, where: str) -> Iterator[tuple[str, Endpoint]]:
    if isinstance(settings.openflow, Endpoint):
        yield f"{where}.openflow.listen", settings.openflow
    yield f"{where}.api.listen", settings.api
    if settings.agents is not None:
        yield f"{where}.agents.listen", settings.agents.listen
        yield f"{where}.agents.join", settings.agents.join


def _agents(place: Node) -> AgentService:
    """Any listen address is allowed: certificates keep unknown peers out."""
    keys = place.mapping("listen", "join", "directory")
    return AgentService(
        listen=keys.maybe("listen", Node.endpoint, DEFAULT_AGENTS.listen),
        join=keys.maybe("join", Node.endpoint, DEFAULT_AGENTS.join),
        directory=keys.maybe("directory", _directory, DEFAULT_AGENTS.directory),
    )


def _file(place: Node) -> str:
    return _unless_otherwise(place, stat.S_ISREG, "a regular file")


def _directory(place: Node) -> str:
    return _unless_otherwise(place, stat.S_ISDIR, "a directory")


def _unless_otherwise(place: Node, fits: Callable[[int], bool], expected: str) -> str:
    """Return a path that does not exist yet or is of the right kind. Permissions are not checked."""
    path = place.path()
    try:
        good = fits(Path(path).stat().st_mode)
    except NotADirectoryError:
        good = False
    except OSError:
        good = True
    if not good:
        raise place.wrong(f"the path of {expected}, or a path that does not exist yet")
    return path


def _mutual_tls(place: Node) -> MutualTls:
    keys = place.mapping(required=("certificate", "key", "ca"))
    return MutualTls(keys["certificate"].path(), keys["key"].path(), keys["ca"].path())


def _tls(place: Node) -> Tls:
    keys = place.mapping(required=("certificate", "key"))
    return Tls(keys["certificate"].path(), keys["key"].path())
