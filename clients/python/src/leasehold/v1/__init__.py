"""The generated messages and stubs of the API, for what the client does not wrap."""
