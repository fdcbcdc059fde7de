"""Random two-path scenarios, as options of `anabranch compare`: the same for the same name and number."""

import math
import random


def log_uniform(stream, low, high):
    return math.exp(stream.uniform(math.log(low), math.log(high)))


def path(stream, loss):
    """A path of 1 to 200 Mbit/s, 5 to 300 ms and a queue of 0.25 to 4 BDP, all log-uniform; `loss` is in percent."""
    rate, rtt = log_uniform(stream, 1, 200), log_uniform(stream, 5, 300)
    queue = log_uniform(stream, 0.25, 4)
    return ["--path", f"{rate * 1000:.0f}kbit/s,{rtt * 1000:.0f}us,queue={queue:.2f}BDP,loss={loss(stream):.2f}%"]


def scenario(name, number, loss, flows=1):
    """Two random paths, and `flows` flows that together send 10 KB to 20 MB, log-uniform."""
    stream = random.Random(f"{name} {number}")
    paths = path(stream, loss) + path(stream, loss)
    size = log_uniform(stream, 10_000, 20_000_000) / flows
    return [*paths, "--size", f"{size:.0f}B", "--flows", str(flows)]
