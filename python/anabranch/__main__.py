"""The command ``anabranch``, without the verbs that move real packets."""

from __future__ import annotations

import sys

from anabranch import _anabranch


def main() -> None:
    """Run the command line of this process."""
    raise SystemExit(_anabranch.command(sys.argv))


if __name__ == "__main__":
    main()
