"""Every command and every public function, on every kind of scenario and of folder."""
