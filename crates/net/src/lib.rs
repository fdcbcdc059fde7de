//! Multipath TCP in user space: the stack of `anabranch-stack` with bytes and a real clock around it.
