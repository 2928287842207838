"""State and events in, actions out: how many workers each pool gets, where, and who works on what next.

Pure: no clock, thread, socket, randomness or environment inside. Time is an argument, so the simulator runs the very
code that runs in production, and a log of events replays a bug.
"""
