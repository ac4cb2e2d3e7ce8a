"""A virtual SO-101: six STS3215 servos on a pseudo-terminal, MuJoCo behind their registers, cameras over ZMQ."""
