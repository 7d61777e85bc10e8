# SPDX-License-Identifier: Apache-2.0
"""The checks of `doctor`, a module per subject. Each yields Findings for a CheckContext."""
