"""The segments of an episode as compiled kernels: imported only where they are used."""
