"""Code shared by the simulated and the live world: the server, the observer and the main task.

It runs on whatever asyncio loop it is started on, and reads the time from a `Clock`: a calendar in
the simulated world, the wall clock in the live one.
"""
