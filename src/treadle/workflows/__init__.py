"""Several agents on one run."""
