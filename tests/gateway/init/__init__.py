# SPDX-License-Identifier: Apache-2.0
"""Two bare machines become a home and its far site, and are bare again afterwards."""
