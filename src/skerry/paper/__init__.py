"""The paper: what it prints, the runs behind it, and how both compare."""
