"""A real HDFS on one machine, for development, tests and benchmarks."""
