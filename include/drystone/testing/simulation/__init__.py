"""The simulation: real actors over a bucket that lags and fails, on a clock of its own, decided by one seed."""
