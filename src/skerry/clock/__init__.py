"""The clock of a fleet: seconds and joules of steps, links and server rounds."""
