"""Questions about the robustness to uncertain constants, and the texts of their answers."""
