"""Sizes of windows that pages are looked at in."""

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 400, "height": 800}
