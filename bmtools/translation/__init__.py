"""Translation engines behind one interface."""
