"""Speed and memory, always as a ratio against a baseline of the same run: ``make bench``."""
