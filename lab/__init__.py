# SPDX-License-Identifier: Apache-2.0
"""One library for tests and experiments, which runs the real product."""
