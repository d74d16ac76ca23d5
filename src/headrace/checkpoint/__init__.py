"""What a checkpoint's files are: which belong to it, who reads what, when it is complete."""
