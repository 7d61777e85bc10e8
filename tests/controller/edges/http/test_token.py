# SPDX-License-Identifier: Apache-2.0
"""The API's token: generated or configured, secret and strong, and sent to no process of another user."""

from __future__ import annotations

import grp
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controller.edges.http import client, token
from controller.edges.http.client import Client, Denied, NoAnswer, NoToken
from controller.edges.http.server import Serving
from tests.controller.edges.http.fake_core import TOKEN

NOBODY = 65534
READ = (
    "import sys; from controller.edges.http import token; "
    "token.DIRECTORY = token.Path(sys.argv[1]); print(token.found(7))"
)


@pytest.fixture
def run(public_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(token, "DIRECTORY", public_path / "run")
    return public_path / "run"


def found_by(uid: int, gid: int, run: Path) -> str:
    words = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", sys.executable, "-c", READ, str(run)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_each_start_makes_a_new_token_and_removes_it(run: Path) -> None:
    made = []
    for _ in range(2):
        with token.of_api(None, 7) as one:
            assert token.found(7) == one
            made.append(one)
        assert token.found(7) is None and list(run.iterdir()) == []
    assert made[0] != made[1] and all(re.fullmatch("[0-9a-f]{64}", each) for each in made)


def test_token_is_readable_only_by_root_and_its_group(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token, "GROUP", grp.getgrgid(os.getgid()).gr_name)
    with token.of_api(None, 7) as one:
        assert token.path_of(7).stat().st_mode & 0o7777 == 0o640
        assert found_by(NOBODY, NOBODY, run) == "None"
        assert found_by(NOBODY, os.getgid(), run) == one
    monkeypatch.setattr(token, "GROUP", "no-such-group")
    with token.of_api(None, 7):
        assert token.path_of(7).stat().st_mode & 0o7777 == 0o600, "the controller's alone"


def test_stale_token_is_replaced_and_a_newer_one_is_kept(run: Path) -> None:
    run.mkdir()
    token.path_of(7).write_text("of one who was killed\n")
    with token.of_api(None, 7) as one:
        assert token.found(7) == one
        token.path_of(7).write_text("of another\n")
    assert token.found(7) == "of another"


def test_token_that_cannot_be_saved_is_one_sentence(run: Path) -> None:
    run.write_text("a file, and no directory")
    with pytest.raises(token.BadToken, match=r"api-7.token cannot be written|cannot be written to .*token_file"):
        token.of_api(None, 7).__enter__()


def test_local_client_finds_the_token_itself(run: Path, serving: Serving) -> None:
    url = f"http://{serving.endpoint}"
    with pytest.raises(NoToken):
        Client(url).get("status")
    with token.kept(serving.endpoint.port, TOKEN):
        assert Client(url).get("status")["terminals"]
        assert Client(url.replace("127.0.0.1", "localhost")).get("status")
        with pytest.raises(Denied):
            Client(url, token="another").get("status")


def test_client_finds_the_token_of_a_starting_controller(
    run: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([None, TOKEN])
    monkeypatch.setattr(client, "found", lambda _: next(told))
    assert Client(f"http://{serving.endpoint}").get("status")


@pytest.mark.parametrize(
    "word",
    [
        *("0123456789abcdef0123456789abcdef", "d2Vhay10b2tlbi1vZi0xMjhi", "f" * 10 + "0123456789abcdef" * 4),
        *("952851713302469570283719462508571246903", "s0me-Words.and_more~of=them"),
    ],
)
def test_token_of_128_bits_is_accepted(tmp_path: Path, word: str) -> None:
    assert written(tmp_path, word + "\n", 0o640) == word


@pytest.mark.parametrize(
    "word", ["x", "secret", "0123456789abcdef0123456789abcde", "a" * 64, "abc" * 30, "3141592653589793238462643383279"]
)
def test_guessable_token_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(token.BadToken, match=r"can be guessed: .* `openssl rand -hex 32`"):
        written(tmp_path, word, 0o600)


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o601])
def test_token_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(token.BadToken, match=f"chmod o= {tmp_path}"):
        written(tmp_path, TOKEN, mode)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two words", b"\xff\xfe", "a pipe"])
def test_missing_or_invalid_token_file_is_refused(tmp_path: Path, content: bytes | str | None) -> None:
    file = tmp_path / "token"
    if isinstance(content, bytes):
        file.write_bytes(content)
        file.chmod(0o600)
    elif content is not None:
        os.mkfifo(file, 0o600)  # it must not block the controller
    with pytest.raises(token.BadToken, match=re.escape(str(file))):
        token.written(str(file))


def test_token_copy_from_systemd_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given").mkdir()
    written(tmp_path / "given", TOKEN, 0o400)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "given"))
    assert token.written(str(tmp_path / "unreadable" / "token")) == TOKEN


def written(directory: Path, word: str, mode: int) -> str:
    file = directory / "token"
    file.write_text(word)
    file.chmod(mode)
    return token.written(str(file))


PATIENCE_S = 60.0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_token_is_not_sent_to_a_process_of_another_user(host: str) -> None:
    os.seteuid(NOBODY)  # of this thread, which makes the socket
    try:
        listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    finally:
        os.seteuid(0)
    listener.settimeout(PATIENCE_S)
    with listener:
        asked = {"0.0.0.0": "127.0.0.1", "::1": "[::1]"}.get(host, host)
        with pytest.raises(NoAnswer, match=f"a process of user {NOBODY} has taken its port"):
            Client(f"http://{asked}:{listener.getsockname()[1]}", "secret").get("status")
        arrived, _ = listener.accept()
        with arrived:
            arrived.settimeout(PATIENCE_S)
            assert arrived.recv(1000) == b""
