"""A simulated estate in which the deployed schedule and policy objects decide."""
