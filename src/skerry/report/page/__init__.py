"""The report: one page that explains what a folder of records holds, and needs nothing else."""
