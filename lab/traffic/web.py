# SPDX-License-Identifier: Apache-2.0
"""Run a real web server on the stage, and download from it.

`mptcpize run` makes the stock nginx and curl use MPTCP. Every block differs: a checksum reveals repeated or reordered
bytes.
"""

from __future__ import annotations

import hashlib
import random
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.stage import isolate
from lab.stage.command import CommandFailed
from lab.stage.nodes import Machine

BLOCK_BYTES = 1 << 20
READY = "start worker process "
HASH_CHUNK_BYTES = 1 << 20
PORT = 80
CURL = ("curl", "--silent", "--show-error", "--fail", "--noproxy", "*")

CONFIGURATION = """\
daemon off;
worker_processes 1;
user root;
pid {directory}/nginx.pid;
error_log stderr notice;
events {{ worker_connections 512; }}
http {{
    access_log off;
    error_log {directory}/error.log warn;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    sendfile on;
    server {{
        listen {listen}:{port};
        root {directory}/files;
        client_max_body_size 0;
        dav_methods PUT;
        location = /who {{ return 200 $remote_addr; }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class WebFile:
    url: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Download:
    seconds: float
    size_bytes: int
    sha256: str
    mptcp: bool


class WebServer:
    def __init__(self, authority: str, directory: Path) -> None:
        self._origin = f"http://{authority}"
        self._files = directory / "files"

    def url(self, name: str) -> str:
        return f"{self._origin}/{name}"

    def file(self, name: str) -> Path:
        return self._files / name

    def offer(self, name: str, size_bytes: int) -> WebFile:
        """Make a file of this size, with the same content in every run."""
        dice = random.Random(size_bytes)
        block = dice.randbytes(BLOCK_BYTES - 8)
        digest = hashlib.sha256()
        with (self._files / name).open("wb") as file:
            for number in range(-(-size_bytes // BLOCK_BYTES)):
                part = (number.to_bytes(8, "big") + block)[: size_bytes - number * BLOCK_BYTES]
                digest.update(part)
                file.write(part)
        return WebFile(self.url(name), size_bytes, digest.hexdigest())


@contextmanager
def web_server(machine: Machine, address: str, *, port: int = PORT, mptcp: bool = True) -> Iterator[WebServer]:
    """Run nginx on this machine until the block ends; /who answers with the client's address."""
    with tempfile.TemporaryDirectory(prefix="web-", dir=isolate.RUN_DIRECTORY) as place:
        directory = Path(place)
        directory.chmod(0o755)
        (directory / "files").mkdir()
        listen = f"[{address}]" if ":" in address else address
        configuration = directory / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(directory=directory, listen=listen, port=port))
        words = [*_mptcpize(mptcp), "nginx", "-p", place, "-c", str(configuration), "-e", "stderr"]
        process = machine.popen(words, stdout=subprocess.DEVNULL, text=True)
        try:
            _await_start(process, machine.name)
            yield WebServer(listen if port == PORT else f"{listen}:{port}", directory)
        finally:
            process.terminate()
            process.communicate()


def _await_start(process: subprocess.Popen[str], where: str) -> None:
    """Wait for the first worker; nginx opens its sockets before it."""
    assert process.stderr is not None
    output = []
    for line in process.stderr:
        if READY in line:
            return
        output.append(line)
    raise CommandFailed(f"{where}: nginx ended with {process.wait()} and printed: {''.join(output).strip()}")


def download(client: Machine, url: str, timeout_s: float = 600, *, mptcp: bool = True) -> Download:
    """Return the download. Its seconds are curl's, from its start to the last byte.

    Counters of the client's namespace tell MPTCP from TCP, so MPTCP downloads must not overlap.
    """
    with tempfile.NamedTemporaryFile(prefix="download-", dir=isolate.RUN_DIRECTORY) as kept:
        before = _mptcp_connections(client)
        report = "%{time_total} %{size_download}"
        words = (*_mptcpize(mptcp), *CURL, "--output", kept.name, "--write-out", report, url)
        seconds, size = client.run(*words, timeout_s=timeout_s).stdout.split()
        return Download(float(seconds), int(size), sha256(Path(kept.name)), _mptcp_connections(client) > before)


def upload(client: Machine, file: Path, url: str, timeout_s: float = 600) -> float:
    """Return curl's seconds by plain TCP until the server answers the whole file."""
    words = (*CURL, "--upload-file", str(file), "--write-out", "%{time_total}", url)
    return float(client.run(*words, timeout_s=timeout_s).stdout)


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while part := content.read(HASH_CHUNK_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _mptcpize(mptcp: bool) -> tuple[str, ...]:
    return ("mptcpize", "run") if mptcp else ()


def _mptcp_connections(client: Machine) -> int:
    """Return how many connections of this namespace the peer answered with MPTCP."""
    counters = client.run("nstat", "--ignore", "--noupdate", "--zeros", "--json", "MPTcpExtMPCapableSYNACKRX").stdout
    return int(counters.rpartition(":")[2].strip(" }\n"))
