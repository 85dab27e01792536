"""`kill -9` of every process, between every two steps of the protocol, on real Airflow; see `faults.kill.cells`."""
