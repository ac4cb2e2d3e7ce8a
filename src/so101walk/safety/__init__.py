"""What keeps a real arm whole: thresholds that end an episode, the way to rest, what the bus said before a fault."""
