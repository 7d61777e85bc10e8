# SPDX-License-Identifier: Apache-2.0
"""The checks of `doctor`: a module per subject. Each function takes a CheckContext and yields Findings."""
