"""The kinds of attacks, a module each; a module that is added here is one more."""
