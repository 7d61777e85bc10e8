"""One bridge as the core keeps it: what is known of it, asked of it and on its way to it. Pure."""
