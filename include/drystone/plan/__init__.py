"""What should happen next: pure functions from a timeline, a policy and a time to a plan."""
