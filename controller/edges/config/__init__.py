# SPDX-License-Identifier: Apache-2.0
"""The reader of gateway.yaml: the model, or an error with its place."""
