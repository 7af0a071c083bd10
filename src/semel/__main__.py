"""`python -m semel` is `semel`."""

import sys

from semel.cli.main import main

sys.exit(main())
