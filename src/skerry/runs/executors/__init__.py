"""Where stacks are computed. Executors take tasks and give news; they neither plan nor record."""
