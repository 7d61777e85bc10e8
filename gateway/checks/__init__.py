# SPDX-License-Identifier: Apache-2.0
"""What the doctor looks at: one noun a module, one promise a function, each a Scene in and Findings out."""
