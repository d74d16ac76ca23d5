"""Ops, pipelines, and where to cut them."""
