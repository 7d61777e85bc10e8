"""The `controller` part of gateway.yaml: where the controller listens, whom it lets in, and what it keeps where."""

from __future__ import annotations

from ipaddress import ip_address

from controller.configuration.document import ConfigError, Place
from controller.model import AgentService, Endpoint, Settings, Tls

DEFAULT_OPENFLOW = Endpoint("127.0.0.1", 6653)
DEFAULT_API = Endpoint("127.0.0.1", 8653)
DEFAULT_STATE = "/var/lib/bicast/state.json"
DEFAULT_AGENTS = AgentService(Endpoint("127.0.0.1", 8655), Endpoint("127.0.0.1", 8656), "/var/lib/bicast/agents")


def settings_of(place: Place) -> Settings:
    keys = place.mapping("openflow", "api", "state", "agents")
    nothing = Place(place.file, place.where, {})
    openflow_place = keys.maybe("openflow", lambda inner: inner, nothing)
    openflow = openflow_place.mapping("listen", "tls")
    api_place = keys.maybe("api", lambda inner: inner, nothing)
    api = api_place.mapping("listen", "token_file")
    settings = Settings(
        openflow=openflow.maybe("listen", Place.endpoint, DEFAULT_OPENFLOW),
        tls=openflow.maybe("tls", _tls, None),
        api=api.maybe("listen", Place.endpoint, DEFAULT_API),
        token_file=api.maybe("token_file", Place.path, None),
        state_file=keys.maybe("state", Place.path, DEFAULT_STATE),
        agents=keys.maybe("agents", _agents, None),
    )
    if not ip_address(settings.openflow.host).is_loopback and settings.tls is None:
        raise openflow["listen"].wrong("a loopback address, or `tls` beside it: nothing listens to strangers")
    if not ip_address(settings.api.host).is_loopback and settings.token_file is None:
        raise api["listen"].wrong("a loopback address, or `token_file` beside it: nothing listens to strangers")
    return settings


def _agents(place: Place) -> AgentService:
    """Strangers are kept out by certificates, wherever it listens."""
    keys = place.mapping("listen", "join", "directory")
    service = AgentService(
        listen=keys.maybe("listen", Place.endpoint, DEFAULT_AGENTS.listen),
        join=keys.maybe("join", Place.endpoint, DEFAULT_AGENTS.join),
        directory=keys.maybe("directory", Place.path, DEFAULT_AGENTS.directory),
    )
    if service.listen == service.join:
        raise ConfigError(place.file, f"{place.where}.join", str(service.join), "another address than `listen` has")
    return service


def _tls(place: Place) -> Tls:
    keys = place.mapping(required=("certificate", "key", "ca"))
    return Tls(keys["certificate"].path(), keys["key"].path(), keys["ca"].path())
