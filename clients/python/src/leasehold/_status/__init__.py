"""The generated messages of the details that gRPC errors carry."""
