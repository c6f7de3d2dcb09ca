"""Mutation testing: small changes to Weft's own code, each of which some test must notice."""
