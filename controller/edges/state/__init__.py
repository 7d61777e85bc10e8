# SPDX-License-Identifier: Apache-2.0
"""The controller's own files: read whole, replaced atomically, and the state that a restart finds in them."""
