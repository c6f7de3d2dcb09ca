"""Running a scenario in one of the worlds, and judging whether its figures can be believed."""
