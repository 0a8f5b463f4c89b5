"""Calling a model, once: the port, its adapters, what each failure means, and what it cost."""
