"""Advice on a fleet of one's own: measure it, predict, try it out, answer."""
