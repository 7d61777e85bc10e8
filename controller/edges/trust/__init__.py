"""Trust: the certificate authority, the ledger of tokens and certificates, refusals, and admission."""
