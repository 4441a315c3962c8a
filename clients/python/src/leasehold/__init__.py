"""The client of Leasehold."""
