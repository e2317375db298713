"""The lessons: pages that show the ideas of the paper with the model's own numbers."""
