"""Set-up: from a checkout to a virtual environment, a JDK and Delta's jars. Needs the standard library alone."""
