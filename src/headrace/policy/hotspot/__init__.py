"""When files are about to turn hot, how many copies they get, for how long, and in which steps."""
