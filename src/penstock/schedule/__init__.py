"""Decide from events how many workers each pool gets, where they run, and which worker runs which batch.

Pure: no clock, thread, socket, randomness or environment. Time is an argument, so the simulator runs the same code as
production, and a recorded log of events replays a bug.
"""
