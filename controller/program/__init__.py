# SPDX-License-Identifier: Apache-2.0
"""The program of a switch: compilation, and difference of two programs."""
