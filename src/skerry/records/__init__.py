"""What is kept of a run: its history (store), its state (checkpoint), a table of both (frame)."""
