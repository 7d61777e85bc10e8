# SPDX-License-Identifier: Apache-2.0
"""The state of the switches: observations, open requests and unconfirmed changes. No I/O."""
