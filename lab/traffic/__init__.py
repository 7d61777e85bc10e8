"""Traffic that is counted at both ends: web downloads, streams, numbered datagrams; and the programs that make it."""
