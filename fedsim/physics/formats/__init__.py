"""Third-party file formats: one module per format, with functions that read files into signals.

Rates over time become `Steps` in bit/s. Availability becomes a `Cycle` for each user. Every error
names the file, the line or the user, the text there and what would be accepted. Third-party files
are not part of fedsim: `fedsim.physics.formats.published` has their addresses and licences.
"""
