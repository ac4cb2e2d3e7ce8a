"""The dataset: LeRobot v3 on disk, written so that no crash can hurt an episode that was saved."""
