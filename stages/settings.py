"""Stage `settings`: stop before anything runs if params.yaml is wrong or older than conf/."""

import sys

from tiebench.composition import guard
from tiebench.errors import TiebenchError

if __name__ == "__main__":
    try:
        guard()
    except TiebenchError as error:
        sys.exit(f"error: {error}")
