# SPDX-License-Identifier: Apache-2.0
"""One library for tests and experiments: it runs the real product in networks."""
