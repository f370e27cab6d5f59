"""The paper: what it prints, the runs behind it, and every table and figure beside both."""
