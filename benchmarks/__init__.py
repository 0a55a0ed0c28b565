"""Measurements, side by side with plain Spark and DuckDB: the same data, the same cores, in the same run."""
