"""Files of others, made small: what is in them is what fedsim follows, and a fault is named."""
