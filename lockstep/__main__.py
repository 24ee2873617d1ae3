"""`python -m lockstep`."""

import sys

from lockstep.cli import main

if __name__ == "__main__":
    sys.exit(main())
