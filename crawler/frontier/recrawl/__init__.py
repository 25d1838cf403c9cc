"""How often a page changes, as far as its visits tell, and what a further visit is worth."""
