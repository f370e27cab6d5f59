"""Advice for a fleet: measure it, predict, run a pilot, and recommend a primitive."""
