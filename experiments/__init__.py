# SPDX-License-Identifier: Apache-2.0
"""Experiments that repeat the papers' tables and figures, and the bench.

plan.py has factors, sizes and repetitions. measure.py runs the plan and yields values. report.py turns values into
rows, figures with their promises, and a plot. `run(args)` in the package's __init__.py connects the three.
"""
