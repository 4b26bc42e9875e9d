"""The server-client protocol: client selection, counting replies and closing rounds.

Events go in (received reply, departure, deadline, timeout), outcomes come out (counted, late,
beyond the buffer, closed). It has no clock, no log, no event loop and no socket, so a simulated
and a real network feed the same code. Endpoints exchange envelopes: a message and its header.
"""
