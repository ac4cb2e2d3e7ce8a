"""Measuring what an arm may do: here its safe envelope."""
