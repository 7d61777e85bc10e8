# SPDX-License-Identifier: Apache-2.0
"""The client of the API: an answer, or one sentence that explains its absence."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, RemoteDisconnected
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPErrorProcessor, HTTPHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from controller.edges.http import peer
from controller.edges.http.token import DIRECTORY, found, is_loopback
from controller.model.config import EVERYBODY

TIMEOUT_S = 10  # longer than the controller waits for its core


class NoAnswer(Exception):
    """No controller answers here, or it cannot answer now."""


class Denied(Exception):
    """A refusal, in the controller's words."""


class NoToken(Denied):
    """The controller requires a token, or another one."""


class Client:
    def __init__(self, url: str, token: str | None = None, authority: ssl.SSLContext | None = None) -> None:
        """Without `token`, each request reads the one that this machine's controller keeps.

        `authority` decides which certificates to trust: by default those that this machine trusts.
        """
        self._url = url
        self._token = token
        self._opener = build_opener(
            ProxyHandler({}),  # a proxy cannot reach our loopback
            *(_AnyStatus, _Local, HTTPSHandler(context=authority or ssl.create_default_context())),
        )

    @property
    def host(self) -> str:
        return urlsplit(self._url).hostname or ""

    def get(self, *path: str) -> Any:
        return self._ask("GET", path, None)

    def put(self, *path: str, wish: dict[str, str]) -> Any:
        return self._ask("PUT", path, json.dumps(wish).encode())

    def page_link(self, access: str) -> str:
        """Return the address of the page, with a code that signs one browser in."""
        answer = self._ask("POST", ("page", "links"), json.dumps({"access": access}).encode())
        return f"{self._url}/#{answer['code']}"

    def events(self, terminal: str | None, uplink: str | None) -> Any:
        asked = {key: each for key, each in (("terminal", terminal), ("uplink", uplink)) if each is not None}
        return self._ask("GET", ("events",), None, asked)

    def sign_all_out(self) -> Any:
        return self._ask("DELETE", ("page", "sessions"), None)

    def invite(self, name: str, role: str | None = None, terminal: str | None = None) -> Any:
        asked = {"role": role, "terminal": terminal}
        wish = {key: value for key, value in asked.items() if value is not None}
        return self._ask("POST", ("agents", name, "token"), json.dumps(wish).encode())

    def revoke(self, name: str) -> Any:
        return self._ask("DELETE", ("agents", name), None)

    def set_mode(self, terminal: str, mode: str, traffic: str | None = None) -> Any:
        whose = () if terminal == EVERYBODY else ("terminals", terminal)
        of = () if traffic is None else ("classes", traffic)
        return self.put(*whose, *of, "mode", wish={"mode": mode})

    def set_active(self, terminal: str, uplink: str) -> Any:
        return self.put("terminals", terminal, "active", wish={"uplink": uplink})

    def reset_budget(self, gateway: str, uplink: str) -> Any:
        return self._ask("DELETE", ("gateways", gateway, "uplinks", uplink, "used"), None)

    def measure(self, uplink: str, site: str | None, link_bps: float | None) -> Any:
        wish = {"site": site, "link_bps": link_bps}
        return self._ask("POST", ("paths", uplink, "probe"), json.dumps(wish).encode())

    def add_relay(
        self,
        name: str,
        address: str,
        port: int = 443,
        ports: Sequence[tuple[int, int]] = ((80, 80), (443, 443)),
        congestion: str | None = None,
    ) -> Any:
        """`ports` are of servers, each first to last."""
        ranges = [{"first": first, "last": last} for first, last in ports]
        wish = {"address": address, "port": port, "ports": ranges, "congestion": congestion}
        return self._ask("PUT", ("relays", name), json.dumps(wish).encode())

    def remove_relay(self, name: str) -> Any:
        return self._ask("DELETE", ("relays", name), None)

    def drain_relay(self, name: str, draining: bool) -> Any:
        return self._ask("PUT", ("relays", name, "draining"), json.dumps({"draining": draining}).encode())

    def try_relay(self, name: str, address: str | None) -> Any:
        return self._ask("POST", ("relays", name, "trial"), json.dumps({"address": address}).encode())

    def destination(self, address: str, site: str | None) -> Any:
        return self._ask("POST", ("destinations", address, "choice"), json.dumps({"site": site}).encode())

    def _ask(
        self, method: str, path: tuple[str, ...], body: bytes | None, query: Mapping[str, str] | None = None
    ) -> Any:
        token = self._token or self._of_this_machine()
        try:
            return self._answer(method, path, body, query, token)
        except NoToken:
            # A starting controller listens before it writes its token.
            newer = self._token or self._of_this_machine()
            if newer == token:
                raise
            return self._answer(method, path, body, query, newer)

    def _answer(
        self,
        method: str,
        path: tuple[str, ...],
        body: bytes | None,
        query: Mapping[str, str] | None,
        token: str | None,
    ) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = "/".join((self._url, "api/v1", *(quote(step, safe="") for step in path)))
        if query:
            url += f"?{urlencode(query)}"
        try:
            with self._opener.open(Request(url, body, headers, method=method), timeout=TIMEOUT_S) as answer:
                status, kind, text = answer.status, answer.headers.get_content_type(), answer.read()
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"no controller answers at {self._url} ({_why(error)})") from error
        if status == HTTPStatus.OK and kind == "application/json":
            return json.loads(text)
        if kind == "application/problem+json":
            raise self._refusal(status, json.loads(text)["detail"])
        raise NoAnswer(f"the program that answers at {self._url} is not a bicast controller")

    def _of_this_machine(self) -> str | None:
        parts = urlsplit(self._url)
        return found(parts.port or 80) if is_loopback(parts.hostname or "") else None

    def _refusal(self, status: int, detail: str) -> Exception:
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS):
            return NoToken(f"{self._url} asks for its token")
        return NoAnswer(detail) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Denied(detail)


def _why(error: OSError | HTTPException) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message}; name its authority with --ca"
    if isinstance(reason, RemoteDisconnected):
        return f"{reason}; with controller.api.tls its address begins with https://"
    return str(reason)


class _Local(HTTPHandler):
    """An HTTP handler. Over loopback it sends only to root, the controller or this user."""

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_LocalConnection, request)


class _LocalConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        host = self.sock.getpeername()[0]
        if not is_loopback(host):
            return
        trusted = {0, os.geteuid()}
        with contextlib.suppress(OSError):
            trusted.add(DIRECTORY.stat().st_uid)  # the service's; only root creates it
        others = peer.users(self.sock) - trusted
        if others:
            self.close()
            raise OSError(
                f"a process of user {min(others)} has taken its port; nothing was sent to it; end that process"
            )


class _AnyStatus(HTTPErrorProcessor):
    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response
