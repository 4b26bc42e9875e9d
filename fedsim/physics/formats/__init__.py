"""Files of others: one module a format, each a function from a file to what fedsim follows.

Rates over time become `Steps` in bit/s; times at which clients are there become `Cycle` by user.
Every fault names the file, the line or the user, what was seen and what is accepted. No file of
others is part of fedsim: `fedsim.physics.formats.published` says where each is, and under which
licence.
"""
