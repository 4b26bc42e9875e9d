"""Meters: energy that the physical components of a client spend while the world runs."""
