"""`python -m trserve` is the `trserve` command."""

import sys

from trserve.cli import main

sys.exit(main())
