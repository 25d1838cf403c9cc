"""Own rules that refuse to ask a host, whatever leads there."""
