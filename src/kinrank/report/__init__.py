"""Everything that is drawn or printed as a table: figures, LaTeX, Markdown, CSV and HTML pages.

It knows comparisons, ablations, tunings and demonstrations by their attributes alone, so that the
rooms that make them can call it.
"""
