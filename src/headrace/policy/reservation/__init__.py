"""Who gets how much of the storage's bandwidth, and why: pure decisions over jobs' health."""
