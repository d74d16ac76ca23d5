"""What a trace says: figures, diagnosis, workload models."""
