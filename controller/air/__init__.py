"""What terminals that share an access point may have on its way at once, and who holds them to it."""
