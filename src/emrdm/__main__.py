"""``python -m emrdm``: the command line where nothing is installed."""

import sys

from emrdm.cli import main

sys.exit(main())
