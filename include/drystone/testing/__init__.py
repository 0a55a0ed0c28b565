"""What users of Drystone test with: shipped, and used by its own tests and demo."""
