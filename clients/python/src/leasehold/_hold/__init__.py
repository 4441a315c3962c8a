"""How a lock is asked for, held, kept and released."""
