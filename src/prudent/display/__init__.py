"""Everything that readers see: words and numbers, figures, and pages of HTML.

Figure functions take arrays, labels and data frames, so every other room can call them.
"""
