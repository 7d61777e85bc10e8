"""Lines through many points: by least squares, and along their lower edge.

What delays a packet only ever adds to what the path itself takes, so a path is told by those that were delayed least.
The least of all would be told by single clock errors; a low quantile is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

ROUNDS = 200
NEAR = 1e-6  # of the spread: what another round would change less is left
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Line:
    """A coefficient for each column, each with the error (one standard deviation) that the points' scatter explains."""

    coefficients: Numbers
    errors: Numbers


def least_squares(columns: Numbers, values: Numbers) -> Line:
    inverse = np.linalg.pinv(columns.T @ columns)
    coefficients = inverse @ (columns.T @ values)
    left = values - columns @ coefficients
    variance = float(left @ left) / max(1, len(values) - columns.shape[1])
    return Line(coefficients, np.sqrt(np.diag(inverse) * variance))


def lower_edge(columns: Numbers, values: Numbers, quantile: float) -> Line:
    """So many of the points are below the line (quantile regression).

    The check function is lowered by steps of weighted least squares that each lie above it; near zero it is rounded
    off, and less from round to round.
    """
    coefficients = least_squares(columns, values).coefficients
    left = values - columns @ coefficients
    spread = float(np.median(np.abs(left - np.median(left)))) or float(np.ptp(values)) or 1.0
    rounded = spread / 2
    for _ in range(ROUNDS):
        weights = 1 / (rounded + np.abs(left))
        weighted = columns * weights[:, None]
        push = weighted.T @ left + (2 * quantile - 1) * columns.sum(axis=0)
        step = np.linalg.lstsq(columns.T @ weighted, push, rcond=None)[0]
        coefficients = coefficients + step
        left = values - columns @ coefficients
        if rounded <= NEAR * spread and np.abs(columns @ step).max() < NEAR * spread:
            break
        rounded = max(rounded * 0.8, NEAR * spread)
    return Line(coefficients, _errors(columns, left, quantile))


def _errors(columns: Numbers, left: Numbers, quantile: float) -> Numbers:
    """By how far apart the points are about the line (Koenker's sandwich, with Hall's and Sheather's width)."""
    # It goes through as many points as it has coefficients: these tell nothing of how close the others are.
    left = np.delete(left, np.argsort(np.abs(left))[: columns.shape[1]])
    points = len(left)
    normal = NORMAL.inv_cdf(quantile)
    density = NORMAL.pdf(normal)
    width = points ** (-1 / 3) * 1.96 ** (2 / 3) * (1.5 * density**2 / (2 * normal**2 + 1)) ** (1 / 3)
    width = min(width, quantile / 2)
    low, high = np.quantile(left, (quantile - width, quantile + width))
    sparsity = float(high - low) / (2 * width)
    inverse = np.linalg.pinv(columns.T @ columns)
    return np.asarray(np.sqrt(np.diag(inverse) * quantile * (1 - quantile)) * sparsity)
