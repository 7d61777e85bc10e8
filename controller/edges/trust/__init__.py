# SPDX-License-Identifier: Apache-2.0
"""Trust: the certificate authority, the ledger of tokens and certificates, refusals, and admission."""
