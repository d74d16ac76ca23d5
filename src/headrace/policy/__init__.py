"""Decisions as pure functions of events and time."""
