# SPDX-License-Identifier: Apache-2.0
"""The program of a switch: how a site compiles into flows and groups, and how two programs differ."""
