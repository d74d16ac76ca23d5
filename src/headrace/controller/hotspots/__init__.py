"""Carries out what is decided of hotspots: reads checkpoints, asks stores, keeps leases."""
