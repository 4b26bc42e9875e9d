"""Messages as TCP carries them: windows, and trains of segments through the queues of links."""
