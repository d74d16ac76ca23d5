"""What benchmarks of checkpoints share: a training state, ranks that save and load it, beds."""
