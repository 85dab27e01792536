"""One change of the code for each sentence of the ten rules, and the tests that must notice it."""
