"""Everything that touches a file, a socket, a clock, a thread or a framework: each folder hides one technology."""
