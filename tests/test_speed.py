"""What tools/speed.py starts never waits for a reader of its output."""

import argparse
import importlib.util
import sys
import unittest
from pathlib import Path

SPEED = Path(__file__).resolve().parent.parent / "tools" / "speed.py"
CHATTY = "import sys; print('ready', flush=True); print('x' * 1_000_000, flush=True); sys.exit(3)"


def load():
    spec = importlib.util.spec_from_file_location("speed", SPEED)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Started(unittest.TestCase):
    def test_a_child_that_prints_more_than_a_pipe_holds_goes_on(self):
        lab = load().Lab(argparse.Namespace(name="none"), "none")
        lab.inside = lambda space, command: list(command)
        child = lab.start(None, sys.executable, "-c", CHATTY, ready="ready")
        self.addCleanup(child.kill)
        # Without a reader it would never end; the limit is for that alone.
        self.assertEqual(child.wait(timeout=60), 3)


if __name__ == "__main__":
    unittest.main()
