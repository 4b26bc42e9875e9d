"""The layers of a network, each a module that a run imports if it has it."""
