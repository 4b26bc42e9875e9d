"""Figures as functions: each draws into axes, its own or the caller's, and returns them."""
