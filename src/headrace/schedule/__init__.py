"""Which samples each rank needs at each step: a pure function, O(1) in the number of samples."""
