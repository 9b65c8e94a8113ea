"""The hourglass network for restoring: the same weights, arranged for speed.

A block is four operations: norm, projection, unit vectors and rotation in one; attention; projection and residual;
norm, feed-forward and residual. ``launches`` has them as Triton kernels for GPUs, ``processor`` in torch for CPUs. What
depends on the noise level alone, the gains of all norms, is computed once for each level and kept. On a GPU, the
launches for a shape are recorded in a CUDA graph and replayed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from emrdm import gpu
from emrdm.networks.fused.graphs import Graphs
from emrdm.networks.hdit import Hourglass
from emrdm.networks.layers import (
    AdaRMSNorm,
    AxialRotary,
    Block,
    FeedForward,
    Level,
    SelfAttention,
    pixel_positions,
    rms_norm,
    without_dropout,
)
from emrdm.networks.temporal import TemporalHDiT, enlarge

_LEVELS_KEPT = 1024  # noise levels whose gains are kept: some tens of kilobytes each
_TABLES_KEPT = 16  # of turns, one for each level and size; megabytes each
_CALLS = 16  # before one call is recorded by itself: most runs are recorded as a whole

# Logits are scale * cosine, so their highest need not be looked for: it is at most the scale. With a larger one, the
# exponentials of all keys of a query might be too small for a float.
_LARGEST_SCALE = 40.0
_optimizer_steps = 0  # of all optimisers: fused ones change weights without telling anybody


def _count_step(*_: object) -> None:
    global _optimizer_steps
    _optimizer_steps += 1


register_optimizer_step_post_hook(_count_step)


@final
class FusedNetwork:
    """An inference copy of a network. The condition is one noise level for the whole batch, as samplers have it."""

    def __init__(self, network: Hourglass, dtype: torch.dtype = torch.bfloat16) -> None:
        self.network, self.dtype = network, dtype
        self.device = next(network.parameters()).device
        modules = list(network.modules())
        self._tables = [t for module in modules for t in (module._parameters, module._buffers) if t]
        self._children = [module._modules for module in modules if module._modules]
        self._version = self._now()
        self.graphs = Graphs()
        self.ops = _operations(self.device)
        self._gains: OrderedDict[float, Tensor] = OrderedDict()
        self._angles: dict[tuple[object, int, int], Tensor] = {}
        self._frequencies: dict[AxialRotary, object] = {}
        self._slots: dict[AdaRMSNorm, slice] = {}
        self._weights: dict[nn.Module, Tensor] = {}
        self._bounds: dict[SelfAttention, Tensor] = {}
        with torch.no_grad():
            self._prepare()

    def _prepare(self) -> None:
        norms = [module for module in self.network.modules() if isinstance(module, AdaRMSNorm)]
        end = 0
        for norm in norms:
            self._slots[norm] = slice(end, end := end + norm.linear.out_features)
        self._gain_weight = torch.cat([norm.linear.weight.float() for norm in norms])
        for module in self.network.modules():
            if isinstance(module, nn.Linear):
                self._weights[module] = module.weight.to(self.dtype).contiguous()
        for module in self.network.modules():
            if isinstance(module, AxialRotary):  # blocks whose heads turn alike share a table
                self._frequencies[module] = (len(module.freqs), *module.freqs.flatten().tolist())
            if isinstance(module, SelfAttention):
                order = self.ops.pairs_together(self.network.config.head_channels, module.heads, self.device)
                self._weights[module.qkv_proj] = self._weights[module.qkv_proj][order].contiguous()
                if float(module.scale.abs().max()) < _LARGEST_SCALE:
                    self._bounds[module] = module.scale.detach().abs().float()
        patch_in = self.network.patch_in.proj
        self._weights[patch_in] = self.ops.as_first(self._weights[patch_in])

    def __call__(self, x: Tensor, c_noise: float, present: Tensor | None = None) -> Tensor:
        """(B, in, H, W) or (B, L, in, H, W), any float type, one noise level -> (B, out, H, W), float32."""
        # Triton launches on the current GPU; a caller's autocast would change types that are chosen here.
        with torch.cuda.device_of(x), torch.autocast(self.device.type, enabled=False):
            gains = self._gains_at(c_noise)
            if not x.is_cuda or not self.graphs.pays(x):
                return self.run(x, gains, present)
            return self.graphs.replay(self.run, x, gains, present, held=self.held, after=_CALLS)

    def is_current(self) -> bool:
        """Whether the network's weights are what they were, neither changed in place nor replaced nor moved.

        What was changed through ``.data``, torch does not tell.
        """
        return self._now() == self._version

    def _now(self) -> tuple[int, ...]:
        weights = (x for table in self._tables for x in table.values() if x is not None)
        numbers = (number for x in weights for number in (x.data_ptr(), 0 if x.is_inference() else x._version))
        children = (id(child) for table in self._children for child in table.values())
        return (_optimizer_steps, *numbers, *children)

    def held(self) -> list[Tensor]:
        """What a recording reads beside weights, and might be dropped here: gains of noise levels, tables of turns."""
        return [*self._gains.values(), *self._angles.values()]

    def run(self, x: Tensor, gains: Tensor, present: Tensor | None = None) -> Tensor:
        """As :meth:`__call__`, kernel by kernel, with the gains of all norms."""
        with torch.no_grad():
            if isinstance(self.network, TemporalHDiT):
                return self._series(x, gains, present)
            return self._decode(*self._encode(x, gains), gains)

    # ---------------------------------------------------------------- the noise level

    def _gains_at(self, c_noise: float) -> Tensor:
        if c_noise in self._gains:
            self._gains.move_to_end(c_noise)
            return self._gains[c_noise]
        with torch.no_grad(), without_dropout(self.network.mapping):
            level = torch.tensor([c_noise], dtype=torch.float32).to(self.device, non_blocking=True)
            gains = 1 + F.linear(self.network.embed(level).float(), self._gain_weight)[0]
        self._gains[c_noise] = gains
        if len(self._gains) > _LEVELS_KEPT:
            self._gains.popitem(last=False)
        return gains

    def _weight(self, linear: Any) -> Tensor:
        return self._weights[linear]

    def _gain(self, gains: Tensor, norm: AdaRMSNorm) -> Tensor:
        return gains[self._slots[norm]]

    # ---------------------------------------------------------------- the hourglass

    def _encode(self, x: Tensor, gains: Tensor) -> tuple[Tensor, list[Tensor]]:
        network = self.network
        tokens = self.ops.tokens(x, network.config.patch, self.dtype)
        tokens = self.ops.linear(tokens, self._weight(network.patch_in.proj))
        skips = []
        for level, merge in zip(network.down_levels, network.merges, strict=True):
            tokens = self._level(tokens, level, gains)
            skips.append(tokens)
            tokens = self.ops.merge(tokens, self._weight(merge.proj))
        return self._level(tokens, network.mid_level, gains), skips

    def _decode(self, x: Tensor, skips: list[Tensor], gains: Tensor) -> Tensor:
        network = self.network
        for level, split, skip in reversed(list(zip(network.up_levels, network.splits, skips, strict=True))):
            x = self.ops.split(x, self._weight(split.proj), skip, split.fac)
            x = self._level(x, level, gains)
        return self.ops.pixels(x, network.out_norm.scale, self._weight(network.patch_out.proj), network.patch_out.side)

    def _level(self, x: Tensor, level: nn.Module, gains: Tensor) -> Tensor:
        assert isinstance(level, Level)
        for block in level:
            assert isinstance(block, Block)
            x = self._feed_forward(self._attend(x, block.self_attn, gains), block.ff, gains)
        return x

    def _attend(self, x: Tensor, attention: SelfAttention, gains: Tensor) -> Tensor:
        qkv = self.ops.heads(
            x,
            self._gain(gains, attention.norm),
            self._weight(attention.qkv_proj),
            attention.scale,
            self._turns(attention.pos_emb, x.shape[1], x.shape[2]),
        )
        out = self.ops.attention(qkv, attention.heads, attention.kernel, self._bounds.get(attention))
        return self.ops.linear(out, self._weight(attention.out_proj), add=x)

    def _feed_forward(self, x: Tensor, block: FeedForward, gains: Tensor) -> Tensor:
        gain = self._gain(gains, block.norm)
        return self.ops.feed_forward(x, gain, self._weight(block.up_proj), self._weight(block.down_proj))

    def _turns(self, rotary: AxialRotary, height: int, width: int) -> Tensor:
        """Cosines and sines of each token, kept for every size."""
        key = (self._frequencies[rotary], height, width)
        if key not in self._angles:
            if len(self._angles) >= _TABLES_KEPT:
                del self._angles[next(iter(self._angles))]
            positions = pixel_positions(height, width, device=self.device)
            self._angles[key] = self.ops.angles(positions, rotary.freqs)
        return self._angles[key]

    # ---------------------------------------------------------------- series

    def _series(self, x: Tensor, gains: Tensor, present: Tensor | None) -> Tensor:
        """Frames (B, L, in, H, W), as :class:`~emrdm.networks.temporal.TemporalHDiT` has it."""
        if present is not None:
            x = x.masked_fill(~present[:, :, None, None, None], 0)
        tokens, skips = self._encode(x.flatten(0, 1), gains)
        shape = x.shape[:2]
        tokens, skips = tokens.unflatten(0, shape), [skip.unflatten(0, shape) for skip in skips]
        fused, attention = self._weigh(tokens, gains, present)
        merged = [_weigh_frames(skip, enlarge(attention, *skip.shape[2:4])) for skip in skips]
        return self._decode(fused, merged, gains)

    def _weigh(self, x: Tensor, gains: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
        block: Any = self.network.temporal_encoder
        attention = block.attention_heads
        values = rms_norm(x, self._gain(gains, attention.norm))
        # The query is the same everywhere, so a head's logit is one product with the values; the bias of the keys adds
        # the same to all frames and drops out.
        queries = attention.Q / attention.Q.shape[1] ** 0.5
        weight = torch.einsum("gd,gdw->gw", queries, attention.fc1_k.weight.unflatten(0, queries.shape))
        logits = self.ops.linear(values, weight.to(values.dtype), wide=True).movedim(-1, 2)
        if present is not None:
            logits = logits.masked_fill(~present[:, :, None, None, None], float("-inf"))
        shares = logits.softmax(1)
        fused = self.ops.linear(_weigh_frames(values, shares), self._weight(attention.out_proj))
        return self._feed_forward(fused, block.ff, gains), shares


def _weigh_frames(x: Tensor, shares: Tensor) -> Tensor:
    """As in ``temporal``, without the many tiny matrix products that einsum makes of it."""
    groups = x.unflatten(-1, (shares.shape[2], -1))
    return (groups * shares.movedim(2, -1).unsqueeze(-1).to(x.dtype)).sum(1).flatten(-2)


def _operations(device: torch.device) -> Any:
    if gpu.usable(device):
        from emrdm.networks.fused import launches

        return launches
    from emrdm.networks.fused import processor

    return processor


def why_not(network: Hourglass) -> str | None:
    """What keeps a network from running fused, in words; None where it can."""
    config = network.config
    if next(network.parameters()).dtype != torch.float32:
        return "its weights are not float32"
    if not gpu.usable(next(network.parameters()).device):
        return None  # torch's own operations take any shape
    if config.head_channels not in (16, 32, 64, 128):
        return f"heads of {config.head_channels} channels"
    if any(width % 32 for width in (*config.widths, *config.hidden)):
        return "widths that are no multiples of 32"
    return None
