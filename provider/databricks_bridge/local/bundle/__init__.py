"""What a Databricks Asset Bundle deploys, read as the Databricks CLI reads it, or refused by file, line and key."""
