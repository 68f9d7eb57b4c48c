"""From pictures to descriptors.

photos = kinrank.features.extract("photos", "efficientnet-lite0")
photos.features, photos.names, photos.labels
"""

from __future__ import annotations

from kinrank.features.descriptors import Descriptor
from kinrank.features.extraction import Extracted, Summary, extract, extract_to_file
from kinrank.features.networks import OnnxNetwork, TorchNetwork
from kinrank.features.pooling import gem, mac, multiscale, regional, rmac, rmac_regions, spoc
from kinrank.features.preprocess import PRESETS, Preprocessing, preset
from kinrank.features.registry import MODELS, ModelInfo, Recipe, load_model, models
from kinrank.features.sources import ImageList, collect, find_images, from_dataset
from kinrank.features.whitening import learned_whitening, pca_whitening
from kinrank.projection.arrays import unit

__all__ = [
    "MODELS",
    "PRESETS",
    "Descriptor",
    "Extracted",
    "ImageList",
    "ModelInfo",
    "OnnxNetwork",
    "Preprocessing",
    "Recipe",
    "Summary",
    "TorchNetwork",
    "collect",
    "extract",
    "extract_to_file",
    "find_images",
    "from_dataset",
    "gem",
    "learned_whitening",
    "load_model",
    "mac",
    "models",
    "multiscale",
    "pca_whitening",
    "preset",
    "regional",
    "rmac",
    "rmac_regions",
    "spoc",
    "unit",
]
