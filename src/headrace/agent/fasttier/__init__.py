"""The agent's cache on a fast disk: encoded samples, kept by when they are needed next."""
