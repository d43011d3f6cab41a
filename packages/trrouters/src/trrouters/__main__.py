"""``python -m trrouters``."""

import sys

from trrouters.cli.main import main

sys.exit(main())
