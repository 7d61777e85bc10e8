# SPDX-License-Identifier: Apache-2.0
"""`init` and `uninstall`: make two bare machines a home and its far site, and take that back."""
