"""Executors: they compute the stack jobs of a driver and report events."""
