"""One sample, from storage through a pipeline to a cut: what agents and loaders share."""
