"""What the project promises of speed, requests and memory, measured: `make bench`, or `python -m benchmarks NAME`."""
