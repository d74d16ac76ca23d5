"""Measurements. Each module runs by itself: ``python -m bench.NAME [--quick] [--json FILE]``."""
