"""What each job does, from its first look to its last word, whoever runs its tasks: Spark or the simulation."""
