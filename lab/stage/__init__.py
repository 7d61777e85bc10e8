# SPDX-License-Identifier: Apache-2.0
"""The stage runs topologies in isolated namespaces."""
