"""Reads other tools' traces as events, one module for each format."""
