"""The kernel against its definition, bit for bit: in Triton's interpreter everywhere, and on a GPU."""

import pytest
import torch
from tests.interpreter import interpret, needs_triton

from emrdm import gpu
from emrdm.noise import Window, fold, normal
from emrdm.noise.philox import draw, split_keys

# Where key 7 draws words that are met once in ten million: the first two give u = 1, the others a sine of zero in each
# of the quadrants, whose sign must be right as well.
RARE = [(15, 987588), (68, 776787), (56, 970027), (73, 563215), (17, 81482), (105, 342612)]


def bits(x):
    return x.cpu().contiguous().view(torch.int32)


@needs_triton
def test_the_interpreted_kernel_gives_the_bits_of_the_definition():
    printed = interpret(
        f"""
import random
import torch
from emrdm.noise import Window, normal, philox

torch.set_num_threads(1)
chance = random.Random(0)
starts = [0, -1, -9, 5, 1000, 2**31 - 4, -(2**31) - 3, 2**32 - 5, 2**40 + 7]
cases = [([7], Window(row, column, 1, 1), 1, 4) for row, column in {RARE}]
cases += [([1, -1, 2**64 - 1, 2**63 + 2**31], Window(-2, 2**31 - 30, 47, 61), 1, 3)]  # six programs an image
cases += [([], Window(0, 0, 2, 2), 1, 1), ([3], Window(0, 0, 0, 2), 1, 1), ([3], Window(0, 0, 1, 1030), 1, 2)]
for bands in range(1, 15):
    keys = [chance.getrandbits(64) for _ in range(chance.randint(1, 2))]
    corner = chance.choice(starts), chance.choice(starts)
    cases.append((keys, Window(*corner, chance.randint(1, 20), chance.randint(1, 30)), chance.randint(1, 2), bands))

define, philox.draw = philox.draw, None  # so that only the kernel can answer
for keys, window, frames, bands in cases:
    expected = define(philox.split_keys(keys, "cpu"), window, frames, bands)
    drawn = normal(keys, window, frames=frames, bands=bands)
    assert drawn.is_contiguous() and drawn.dtype == torch.float32
    same = torch.equal(drawn.view(torch.int32), expected.contiguous().view(torch.int32))
    assert same, (keys, window, frames, bands)
print(len(cases), "cases agree")
"""
    )
    assert printed == "24 cases agree\n"


def test_a_host_without_triton_draws_all_the_same():
    code = """
import sys
sys.modules["triton"] = None
from emrdm.noise import Window, normal
print(normal(7, Window(73, 563215, 1, 1), bands=4).view(dtype=__import__("torch").int32).flatten().tolist())
"""
    expected = bits(draw(split_keys([7], "cpu"), Window(73, 563215, 1, 1), 1, 4)).flatten().tolist()
    assert interpret(code) == f"{expected}\n"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bands", range(1, 15))
def test_the_bits_are_the_same_on_the_gpu(bands):
    assert gpu.usable(torch.device("cuda"))
    keys = [fold(5, bands, i) for i in range(3)]
    window = Window(-100, 2**31 - 70, 333, 257)
    on_gpu = normal(keys, window, frames=2, bands=bands, device="cuda")
    assert on_gpu.is_contiguous()
    assert torch.equal(bits(on_gpu), bits(normal(keys, window, frames=2, bands=bands)))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("row", "column"), RARE)
def test_the_rarest_words_have_the_same_bits_on_the_gpu(row, column):
    window = Window(row, column, 1, 1)
    assert torch.equal(bits(normal(7, window, bands=4, device="cuda")), bits(normal(7, window, bands=4)))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("size", "bands"), [(27_000, 3), (46_400, 1)])
def test_a_field_may_have_more_elements_than_32_bits_count(size, bands):
    assert size * size * bands > 2**31
    if torch.cuda.mem_get_info()[0] < 10e9:
        pytest.skip("needs 10 GB")
    field = normal(3, Window(0, 0, size, size), bands=bands, device="cuda")
    for corner in (0, size // 2, size - 50):
        part = field[..., corner : corner + 50, corner : corner + 50]
        assert torch.equal(bits(part), bits(normal(3, Window(corner, corner, 50, 50), bands=bands)))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_a_draw_does_not_wait_for_the_gpu():
    keys, window = [fold(5, i) for i in range(8)], Window(0, 0, 64, 64)
    normal(keys, window, bands=13, device="cuda")  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        normal(keys, window, bands=13, device="cuda")
    finally:
        torch.cuda.set_sync_debug_mode("default")
