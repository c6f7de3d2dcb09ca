"""Files with what goes into one switch: table entries, groups, sessions."""
