"""``python -m transformer``: see ``transformer.cli``."""

import sys

from transformer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
