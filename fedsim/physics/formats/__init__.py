"""Third-party file formats: one module a format, with functions that read files into signals.

Rates over time become `Steps` in bit/s; availability becomes a `Cycle` for each user. Every error
names the file, the line or the user, the text found and what is accepted. No third-party file is
part of fedsim: `fedsim.physics.formats.published` has their addresses and licences.
"""
