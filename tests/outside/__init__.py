"""fedsim as those see it who have installed it: no checkout, public names alone."""
