"""What sites say their pages may be used for, by purpose; plain data, without input and output."""
