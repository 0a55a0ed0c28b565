"""What is visible, and what supersedes what: pure functions of a snapshot."""
