"""What can go wrong."""
