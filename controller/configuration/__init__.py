"""How gateway.yaml is read: the file, the place in it, what two places may not both claim."""
