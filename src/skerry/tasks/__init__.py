"""What a fleet learns: classification, regression, the next token; or what a user's loss says."""
