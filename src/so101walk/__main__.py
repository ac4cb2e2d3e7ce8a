"""``python -m so101walk`` is the ``so101walk`` command."""

from .cli.main import main

main()
