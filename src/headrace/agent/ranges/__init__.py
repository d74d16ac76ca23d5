"""Byte ranges of files that an agent reads for whoever asks, and keeps while a lease lasts."""
