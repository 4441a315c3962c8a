"""What is known of locks, and how it changes."""
