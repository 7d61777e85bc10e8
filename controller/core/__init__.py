"""The core: an event in, effects out. It holds the configuration in force, every switch and every feature. Pure."""
