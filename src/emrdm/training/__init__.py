"""Training: state that is a pure function of the configuration and the step."""

from emrdm.training.average import MovingAverage
from emrdm.training.order import Order

__all__ = ["MovingAverage", "Order"]
