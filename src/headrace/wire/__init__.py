"""What travels between trainers, agents and the controller."""
