"""so101walk: random-walk episodes on the SO-101 arm, from the serial bus to the verdict."""

__version__ = "0.1.0"
