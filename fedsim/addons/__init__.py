"""Add-ons: each stands on the packages beside this one, and none of these imports it.

Further models of networks (`tcp`, `lorawan`), further worlds (`live`), answers about recorded runs
(`repricing`, `robustness`, `explorer`, `paper`, `bench`), constants from recordings
(`calibration`), checks of blocks (`conformance`), and bridges to other libraries (`torch`, `jax`,
`flower`). An add-on with commands has them in `command.py`, which is imported when one of them is
called.
"""
