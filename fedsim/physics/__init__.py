"""The laws of the physical world: plain values and functions of time, without a clock."""
