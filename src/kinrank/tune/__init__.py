"""Parameters chosen without labels, and a word on whether re-ranking will help.

The front door is the function ``kinrank.tune``, which has the name of this package.
"""
