# SPDX-License-Identifier: Apache-2.0
"""Trust: certificate authority, ledger, refusals and admission."""
