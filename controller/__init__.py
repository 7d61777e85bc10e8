"""The brain: decides what every bridge of a multihomed site does with its packets."""
