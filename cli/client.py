"""The controller's API from the other side: a question, and its answer or one sentence."""

from __future__ import annotations

import argparse
import json
import os
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from cli import REFUSED, UNREACHABLE, USAGE, Failure

DEFAULT_API = "127.0.0.1:8653"
TIMEOUT_S = 10  # longer than the controller waits for its core


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every verb that talks to a running controller takes."""
    parser.add_argument(
        "--api",
        metavar="HOST:PORT",
        default=os.environ.get("BICAST_API") or DEFAULT_API,
        help=f"where the controller's API is (default: $BICAST_API, or {DEFAULT_API})",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="holds the API's token, where it asks for one (default: $BICAST_TOKEN)"
    )


def client_of(args: argparse.Namespace) -> Client:
    return Client(_url(args.api), _token(args.token_file))


class Client:
    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._opener = build_opener(ProxyHandler({}), _AnyStatus)  # a proxy has no way to our loopback

    def get(self, *path: str) -> Any:
        return self._ask("GET", path, None)

    def put(self, *path: str, wish: dict[str, str]) -> Any:
        return self._ask("PUT", path, json.dumps(wish).encode())

    def _ask(self, method: str, path: tuple[str, ...], body: bytes | None) -> Any:
        headers = {**self._headers, **({"Content-Type": "application/json"} if body else {})}
        url = "/".join((self._url, "api/v1", *(quote(step, safe="") for step in path)))
        try:
            with self._opener.open(Request(url, body, headers, method=method), timeout=TIMEOUT_S) as answer:
                status, kind, text = answer.status, answer.headers.get_content_type(), answer.read()
        except (OSError, HTTPException) as error:
            raise Failure(
                f"no controller answers at {self._url} ({getattr(error, 'reason', error)}): "
                "start one with `./bicast run`, or name it with --api",
                UNREACHABLE,
            ) from error
        if status == HTTPStatus.OK and kind == "application/json":
            return json.loads(text)
        if kind == "application/problem+json":
            raise self._refusal(status, json.loads(text)["detail"])
        raise Failure(f"what answers at {self._url} is no bicast controller: name one with --api", UNREACHABLE)

    def _refusal(self, status: int, detail: str) -> Failure:
        if status == HTTPStatus.UNAUTHORIZED:
            return Failure(f"{self._url} asks for its token: set BICAST_TOKEN, or give --token-file")
        return Failure(detail, UNREACHABLE if status >= HTTPStatus.INTERNAL_SERVER_ERROR else REFUSED)


class _AnyStatus(HTTPErrorProcessor):
    """An answer with an error status is an answer."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


def _url(api: str) -> str:
    url = api if "://" in api else f"http://{api}"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise Failure(f"{api!r} is no address of an API; expected one such as {DEFAULT_API}", USAGE)
    return url.rstrip("/")


def _token(file: str | None) -> str | None:
    try:
        token = os.environ.get("BICAST_TOKEN", "") if file is None else Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"the token cannot be read from {file}: {error}", USAGE) from error
    if not (token.isascii() and token.isprintable()):
        raise Failure(f"{file or 'BICAST_TOKEN'} holds no token: one word of ASCII was expected", USAGE)
    return token or None
