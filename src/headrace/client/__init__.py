"""The loaders that trainers use."""
