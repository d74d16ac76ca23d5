"""The main job, on one machine."""
