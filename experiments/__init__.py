# SPDX-License-Identifier: Apache-2.0
"""Experiments that repeat the papers' tables and figures, and the bench.

plan.py has the factors, measure.py yields values, report.py makes rows, figures with promises, and a plot. `run(args)`
connects the three.
"""
