"""Shares of storage bandwidth on the simulated 32-job cluster, policy against policy."""
