# SPDX-License-Identifier: Apache-2.0
"""The model: the configuration, and the state known beside it, as frozen values."""
