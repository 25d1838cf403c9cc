"""Pages that a browser renders: their sub-requests pass the frontier's gate like every page."""
