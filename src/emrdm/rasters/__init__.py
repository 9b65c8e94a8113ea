"""Pixels in files: GeoTIFF through rasterio, pictures through Pillow; knows nothing of torch."""

from emrdm.rasters.read import SUFFIXES, Raster, read

__all__ = ["SUFFIXES", "Raster", "read"]
