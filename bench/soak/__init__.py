"""A training loop at full speed for a long time: does anything grow that should not?"""
