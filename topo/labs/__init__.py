"""Network files of other tools, which come up as they are."""

LAB_ENDINGS = (".json", ".yml", ".yaml")
"""What names of such files end in."""
