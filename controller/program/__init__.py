# SPDX-License-Identifier: Apache-2.0
"""The program of a switch: compilation of a site into flows and groups, and the difference of two programs."""
