# SPDX-License-Identifier: Apache-2.0
"""`bicast bandwidth`: a path's rate, from the output of `bicast-agent probe`."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli import Failure
from controller.features.probing.probe_evaluation import ProbeSamples, Unreadable, read
from controller.model.text import counted
from controller.policy.bandwidth import estimators
from controller.policy.bandwidth.estimators import calibrated, one_way, rate
from controller.policy.bandwidth.rates import (
    CALIBRATED,
    UNCALIBRATED,
    Alpha,
    FusedRate,
    MeasuredRate,
    Method,
    Rate,
    Unknown,
    fused,
    rate_text,
)

NO_TRAINS = ("none were sent", "none were sent, or the path spaced all of them")


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bandwidth",
        help="estimate the rate of a path from a probe's output",
        description="Estimate the rate of a path from the output of `bicast-agent probe` "
        "(docs/how-to/measure.md): from single packets and, if there are some, from trains, each with a 95 % "
        "confidence interval, and from both together. The rate is from this host to the far end, or with `probe "
        "--down` the reverse. Two hosts need some time for each byte besides the link. Measure it once with --link, "
        "over a link of known rate between them, and subtract it with --alpha.",
    )
    parser.add_argument("file", metavar="FILE", help="output of the probe")
    parser.add_argument(
        "--alpha", metavar="NS", type=_finite, help="nanoseconds per byte that both hosts need, as printed by --link"
    )
    parser.add_argument("--link", metavar="MBITS", type=_positive, help="the known rate in Mbit/s: print alpha")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    try:
        probed = read(Path(args.file).read_text(encoding="ascii"))
    except OSError as error:
        raise Failure(f"{args.file} cannot be read: {error.strerror}") from None
    except (Unreadable, UnicodeDecodeError) as error:
        raise Failure(f"{args.file}: {error}") from None
    alpha = UNCALIBRATED if args.alpha is None else Alpha(args.alpha / 1e9)
    found = estimates(probed, alpha)
    if args.link is not None:
        found["alpha_ns_per_byte"] = _alpha_ns(probed, args.link)
    print(json.dumps(found, indent=2) if args.json else "\n".join(_lines(found)))
    return 0


def estimates(probed: ProbeSamples, alpha: Alpha) -> dict[str, Any]:
    by_packet, by_trains = rate(probed.samples, alpha), estimators.rate_of_trains(probed.trains)
    measured = [
        MeasuredRate(method, each, 0.0)
        for method, each in ((Method.ONE_PACKET, by_packet), (Method.TRAINS, by_trains))
        if isinstance(each, Rate)
    ]
    found: dict[str, Any] = {
        "direction": "down" if probed.down else "up",
        "one_packet": _document(by_packet),
        "trains": _document(by_trains) if probed.trains else {"reason": NO_TRAINS[probed.down]},
        "path": _document(fused(measured, 0.0)),
        "sent": probed.sent,
        "lost": probed.lost,
        "reordered": probed.reordered,
        "calibrated": alpha is not UNCALIBRATED,
    }
    if isinstance(by_packet, Rate):
        of_theirs = -1e6 if probed.down else 1e6  # the receiver's clock against the sender's
        found["drift_ppm"] = of_theirs * one_way(probed.samples).drift
    if probed.mtu_bytes is not None:
        found["mtu_bytes"] = probed.mtu_bytes
    return found


def _document(found: Rate | FusedRate | Unknown) -> dict[str, Any]:
    if isinstance(found, Unknown):
        return asdict(found)
    return {"bps": found.bps, "least_bps": found.least_bps, "most_bps": found.most_bps}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{name:<13}{_words(found[key])}" for name, key in NAMES.items()]
    if found["direction"] == "down":
        lines.append("from the far end to here")
    lines.append(
        f"{counted(found['sent'], 'packets')} sent singly, {found['lost']} lost, {found['reordered']} out of order"
    )
    if not found["calibrated"]:
        lines.append(
            "these hosts' own delay per byte is unknown: --alpha makes the rate more precise (docs/how-to/measure.md)"
        )
    if "drift_ppm" in found:
        lines.append(f"the far end's clock runs {found['drift_ppm']:+.1f} ppm faster than this host's")
    if "mtu_bytes" in found:
        lines.append(f"no packet longer than an MTU of {found['mtu_bytes']} bytes arrived")
    if "alpha_ns_per_byte" in found:
        lines.append(
            f"these hosts need {found['alpha_ns_per_byte']:.3f} ns per byte: --alpha {found['alpha_ns_per_byte']:.3f}"
        )
    return lines


NAMES = {"one packet": "one_packet", "trains": "trains", "the path": "path"}


def _words(one: dict[str, Any]) -> str:
    if "reason" in one:
        return f"not known: {one['reason']}"
    return f"{rate_text(one['bps'])}, {rate_text(one['least_bps'])} to {rate_text(one['most_bps'])}"


def _alpha_ns(probed: ProbeSamples, mbits: float) -> float:
    found = rate(probed.samples, CALIBRATED)
    if isinstance(found, Unknown):
        raise Failure(f"alpha cannot be estimated: {found.reason}")
    return calibrated(one_way(probed.samples), mbits * 1e6).s_per_byte * 1e9


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"found {text}, expected a number")
    return value


def _positive(text: str) -> float:
    value = _finite(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"found {text}, expected more than 0")
    return value
