"""The seen-set on disk, generation by generation."""
