"""Other ways to share bandwidth, behind the arbiter's interface, to be compared with it."""
