"""What keeps the wire from being there at all. It stands apart, so that whoever starts us can catch it by name even
where framework.py, which chooses one framework as soon as it is imported, finds none."""

from __future__ import annotations


class FrameworkError(Exception):
    """The framework cannot run here; said when it is chosen or started."""
