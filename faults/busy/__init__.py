"""A busy local workspace: hundreds of jobs that fire, for a long time, or killed again and again."""
