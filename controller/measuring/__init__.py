"""The roads between sites, and what is known of them by packets that the sites' agents send each other."""
