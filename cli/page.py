# SPDX-License-Identifier: Apache-2.0
"""`page`: print a link that signs a browser in to the controller's page."""

from __future__ import annotations

import argparse
import time
import webbrowser
from typing import Any

from cli import OK, REFUSED, Failure
from cli.client import add_options, api_client


def add(subparsers: argparse._SubParsersAction[Any]) -> None:
    parser = subparsers.add_parser(
        "page",
        help="print a link that signs a browser in to the controller's page",
        description="Print a link to the controller's page: the network as it is, its controls, and the reasons for "
        "each decision. The link signs one browser in, once, within 5 minutes; the browser stays signed in for 30 "
        "days. The page is served on loopback: from another machine, open it through "
        "`ssh -L 8653:127.0.0.1:8653 GATEWAY`.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--open", action="store_true", help="open the link in this machine's browser")
    what.add_argument("--sessions", action="store_true", help="list the browsers that are signed in")
    what.add_argument("--sign-out", action="store_true", help="sign all browsers out")
    parser.add_argument("--read-only", action="store_true", help="the browser may read and change nothing")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    with api_client(args) as client:
        if args.sessions:
            for each in client.get("page", "sessions"):
                until = time.strftime("%Y-%m-%d", time.localtime(each["until"]))
                print(f"page {each['number']}: may {each['access']}, opened by {each['opened_by']}, until {until}")
            return OK
        if args.sign_out:
            print(f"browsers signed out: {client.sign_all_out()['sessions']}")
            return OK
        link = client.page_link("read" if args.read_only else "operate")
    print(link, flush=True)
    if args.open and not webbrowser.open(link):
        raise Failure("this machine has no browser: open the link in another one", REFUSED)
    return OK
