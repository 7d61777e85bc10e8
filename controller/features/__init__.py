# SPDX-License-Identifier: Apache-2.0
"""The features: each folder keeps one feature's state and turns decisions into orders. Pure."""
