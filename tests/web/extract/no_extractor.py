"""Stands in for a library that ends the process when it is imported."""

from __future__ import annotations

import os

os._exit(1)
