"""Records of runs: the store (histories), checkpoints (state), and the detection of damage."""
