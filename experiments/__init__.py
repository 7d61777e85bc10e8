# SPDX-License-Identifier: Apache-2.0
"""Reruns of the papers' tables and figures, and the bench. Each has plan.py, measure.py and report.py.

plan.py says what is run: factors, sizes, repetitions. measure.py runs it and yields values. report.py turns the values
into rows, figures with their promises, and a plot; `run(args)` in the package's __init__.py ties the three together.
"""
