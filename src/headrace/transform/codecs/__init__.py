"""Decoders: encoded bytes in, RGB pictures out. Only these modules open media files."""
