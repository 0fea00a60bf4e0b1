"""`python -m tensorferry` is the command `ferry`."""

import sys

from tensorferry.cli import main

sys.exit(main())
