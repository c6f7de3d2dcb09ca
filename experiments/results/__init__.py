"""What came of runs: the results document, its summary and its tables."""
