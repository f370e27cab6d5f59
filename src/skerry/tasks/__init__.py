"""Learning tasks: classification, regression, next tokens, with built-in or user-defined losses."""
