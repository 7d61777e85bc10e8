# SPDX-License-Identifier: Apache-2.0
"""The controller's own files, and the state that survives a restart."""
