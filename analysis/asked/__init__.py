"""What is asked of the doubt about constants, and how the answer is told."""
