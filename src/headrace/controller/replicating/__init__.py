"""Carries replications out: watches roots, sends chunks, publishes, says how far it is."""
