# SPDX-License-Identifier: Apache-2.0
"""The checks of the doctor: one noun a module, one promise a function, each a CheckContext in and Findings out."""
