"""A language server for P4: what editors show while a program is written, by Weft's compiler."""
