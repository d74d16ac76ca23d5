"""Decides what of which checkpoint is copied when: pure, told by events, answered by actions."""
