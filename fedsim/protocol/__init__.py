"""The protocol between a server and its clients: who is asked, what counts, when a round closes.

Facts go in (heard, gone, overdue), verdicts come out (counted, late, beyond, closed). There is
no clock in it, no log, no event loop and no socket, so the virtual world and a real one feed the
same code. What the two ends send each other are envelopes: a message and its header.
"""
