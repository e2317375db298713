"""The command line. Results go to standard output, everything else to standard error.

Exit status: 0 on success, 1 if a check of our own failed, 2 on a user's mistake (one sentence says which), 130 if
interrupted, 141 if the reader of standard output went away.
"""
