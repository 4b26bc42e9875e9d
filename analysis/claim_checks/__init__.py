"""Claims of papers, and whether they hold where time and energy count."""
