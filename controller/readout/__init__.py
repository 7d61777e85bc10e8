"""The core at one moment, for those who read: the snapshot, how it is built, and the answer to `why`."""
