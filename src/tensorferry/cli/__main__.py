"""`python -m tensorferry.cli` is the command `ferry`."""

import sys

from tensorferry.cli import main

sys.exit(main())
