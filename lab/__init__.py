# SPDX-License-Identifier: Apache-2.0
"""One library for tests and experiments: it builds networks and runs the real product in them."""
