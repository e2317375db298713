"""The numbers behind the lessons: what a trained model computes for a sentence, one idea of the paper a file."""
