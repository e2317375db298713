"""Measurements of the product against others; each file is a script: ``python benchmarks/train.py``."""
