"""Pages that a browser renders: what they ask for goes through the frontier's gate like every page."""
