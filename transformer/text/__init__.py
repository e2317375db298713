"""From text files to batches of piece ids.

tokenizer   text to pieces and back, with the place of each piece in the typed text
corpus      reading, cleaning and splitting sentence pairs
datasets    the corpora known by name;  download  fetches their files
batching    token batches
synthetic   the reverse task, which needs no data
"""
