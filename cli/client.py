# SPDX-License-Identifier: Apache-2.0
"""The controller of a verb."""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from cli import UNREACHABLE, USAGE, Failure
from controller.edges.config import settings
from controller.edges.http.client import Client, Denied, NoAnswer, NoToken
from controller.edges.http.token import DIRECTORY, GROUP

DEFAULT_API = str(settings.DEFAULT_API)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--api",
        metavar="HOST:PORT",
        default=os.environ.get("BICAST_API") or DEFAULT_API,
        help=f"address of the controller's API (default: $BICAST_API, or {DEFAULT_API}; without a port, the "
        "default port); https:// before it where the API has TLS",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the API's token (default: $BICAST_TOKEN, or the token of this "
        f"machine's controller in {DIRECTORY})",
    )
    parser.add_argument(
        "--ca",
        metavar="FILE",
        default=os.environ.get("BICAST_CA") or None,
        help="certificate of the API, or of its authority (default: $BICAST_CA, or those that this machine trusts)",
    )


@contextmanager
def api_client(args: argparse.Namespace) -> Iterator[Client]:
    """Yield a client whose refusals become a Failure of the verb."""
    try:
        yield Client(_url(args.api), _token(args.token_file), _authority(args.ca))
    except NoAnswer as error:
        raise Failure(
            f"{error}: start a controller with `./bicast run`, or give its address with --api", UNREACHABLE
        ) from error
    except NoToken as error:
        raise Failure(
            f"{error}: set BICAST_TOKEN, give --token-file, or run this on its machine as root or a member of "
            f"group {GROUP}"
        ) from error
    except Denied as error:
        raise Failure(str(error)) from error


def _url(api: str) -> str:
    url = api if "://" in api else f"http://{api}"
    try:
        parts = urlsplit(url)
        if "://" not in api and parts.port is None:
            url = f"{url.rstrip('/')}:{settings.DEFAULT_API.port}"
        there = parts.hostname and parts.port != 0 and not parts.netloc.endswith(":")
        good = there and parts.scheme in ("http", "https") and parts.path in ("", "/")
    except ValueError:
        good = False
    if not good:
        raise Failure(f"{api!r} is not an address of an API; expected one such as {DEFAULT_API} or [::1]:8653", USAGE)
    return url.rstrip("/")


def _authority(file: str | None) -> ssl.SSLContext | None:
    try:
        return None if file is None else ssl.create_default_context(cafile=file)
    except OSError as error:  # SSLError too
        raise Failure(f"--ca {file}: {error}; expected PEM certificates", USAGE) from error


def _token(file: str | None) -> str | None:
    try:
        token = os.environ.get("BICAST_TOKEN", "") if file is None else Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise Failure(f"the token cannot be read from {file}: {why}", USAGE) from error
    if not (token.isascii() and token.isprintable()):
        raise Failure(f"{file or 'BICAST_TOKEN'} holds no token: one word of ASCII was expected", USAGE)
    return token or None
