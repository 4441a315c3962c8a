"""Where the sidecar is, and the calls to it."""
