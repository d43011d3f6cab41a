"""`python -m trserve` is the `trserve` command."""

import sys

from trserve.cli.main import main

sys.exit(main())
