"""Meters: what the physical parts of a client spend while the world runs."""
