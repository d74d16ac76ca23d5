"""Callbacks of trainers, which watch the loss; each is imported when it is asked for."""
