"""Methods that learn: training, weights with a model card. torch is loaded when it is needed.

kinrank.learned.train("csa", features, labels, out="model.safetensors")
kinrank.learned.read_card("model.safetensors")
"""

from __future__ import annotations

from kinrank.learned.recipes import (
    Card,
    CSARecipe,
    GSSRecipe,
    LAttQERecipe,
    SSRRecipe,
    TrainingRecipe,
    read_card,
    recipe_class,
)
from kinrank.learned.train import train

__all__ = [
    "CSARecipe",
    "Card",
    "GSSRecipe",
    "LAttQERecipe",
    "SSRRecipe",
    "TrainingRecipe",
    "read_card",
    "recipe_class",
    "train",
]
