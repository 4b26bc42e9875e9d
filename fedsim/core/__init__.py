"""What all of fedsim rests on: errors, units, blocks and their registries, random streams, files.

`ports` has the interfaces between a method and the world that it runs in.
"""
