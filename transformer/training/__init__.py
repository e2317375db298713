"""From a recipe to a checkpoint: corpus, loss, schedule, loop, evaluation."""
