"""Grids: what is the same place, and what is said where it is not."""

import socket

import pytest

from emrdm.rasters.grid import Grid, as_wkt, crs_name, same_crs

rasterio = pytest.importorskip("rasterio", reason="coordinate reference systems are compared by rasterio")
CRS = rasterio.crs.CRS

UTM = CRS.from_epsg(32633).to_wkt()
NORTH_UP = (10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0)


def shifted(columns=0.0, rows=0.0, *, stretch=1.0):
    return (10.0 * stretch, 0.0, 500_000 + 10 * columns, 0.0, -10.0, 5_000_000 - 10 * rows)


@pytest.mark.parametrize("shift", [(0.04, 0), (0, -0.04), (-0.04, 0.04)])
def test_a_small_part_of_a_pixel_makes_no_difference(shift):
    assert Grid(8, 9, UTM, NORTH_UP).difference(Grid(8, 9, UTM, shifted(*shift))) is None


@pytest.mark.parametrize("shift", [(0.06, 0), (0, -0.06), (0.5, 0.5)])
def test_a_larger_part_does(shift):
    said = Grid(8, 9, UTM, NORTH_UP).difference(Grid(8, 9, UTM, shifted(*shift)))
    assert said.startswith("transform (10, 0, 500000, 0, -10, 5000000) against (10, 0, 500")


def test_all_corners_count():
    """A stretch of a thousandth is nothing near the origin and ten pixels at the other end."""
    assert Grid(10, 10, UTM, NORTH_UP).difference(Grid(10, 10, UTM, shifted(stretch=1.001))) is None
    assert Grid(10, 10_000, UTM, NORTH_UP).difference(Grid(10, 10_000, UTM, shifted(stretch=1.001))) is not None


def test_a_turned_grid_is_compared_in_its_own_pixels():
    turned = (0.0, 10.0, 500_000.0, 10.0, 0.0, 5_000_000.0)
    assert Grid(8, 9, UTM, turned).difference(Grid(8, 9, UTM, turned)) is None
    assert Grid(8, 9, UTM, turned).difference(Grid(8, 9, UTM, NORTH_UP)) is not None


def test_coordinate_reference_systems_are_compared_by_what_they_mean():
    other = CRS.from_string("+proj=utm +zone=33 +datum=WGS84 +units=m").to_wkt()
    assert other != UTM
    assert same_crs(UTM, CRS.from_epsg(32633).to_wkt(version="WKT2_2019"))
    assert not same_crs(UTM, CRS.from_epsg(32634).to_wkt())
    assert not same_crs(UTM, None)
    assert not same_crs(UTM, "nonsense")
    assert same_crs(None, None)


@pytest.mark.parametrize(("crs", "name"), [(None, "none"), (UTM, "EPSG:32633"), ('LOCAL_CS["my field",UNIT["metre",1]]', "my field"), ("nonsense", "nonsense")])  # fmt: skip
def test_coordinate_reference_systems_have_short_names(crs, name):
    assert crs_name(crs) == name


def test_a_coordinate_reference_system_by_address_is_not_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        assert as_wkt(f"http://127.0.0.1:{port}/x") is None
        assert crs_name(f"http://127.0.0.1:{port}/x").startswith("http://")
        with pytest.raises(BlockingIOError):
            server.accept()
    assert "32633" in as_wkt("EPSG:32633")


def test_ground_control_points_are_compared():
    points = ((0.0, 0.0, 1.0, 2.0, 0.0), (0.0, 8.0, 3.0, 2.0, 0.0))
    grid = Grid(8, 8, UTM, None, points)
    assert grid.georeferenced
    assert grid.difference(Grid(8, 8, UTM, None, points)) is None
    assert grid.difference(Grid(8, 8, UTM, None, points[:1])) == "2 ground control points against 1"
    moved = (points[0], (0.0, 8.0, 4.0, 2.0, 0.0))
    assert (
        grid.difference(Grid(8, 8, UTM, None, moved)) == "ground control point (0, 8, 3, 2, 0) against (0, 8, 4, 2, 0)"
    )


def test_no_place_is_a_place_like_any_other():
    assert Grid(8, 9).difference(Grid(8, 9)) is None
    assert not Grid(8, 9).georeferenced
    assert Grid(8, 9).difference(Grid(8, 9, None, NORTH_UP)).startswith("transform none against (10,")
    assert Grid(8, 9).difference(Grid(9, 9)) == "size 9 x 8 pixels against 9 x 9 pixels"
