"""Who may connect: certificate authority, ledger of tokens and certificates, refusals, admission of strangers."""
