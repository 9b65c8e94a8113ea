"""Training: one loop whose state is a pure function of the recipe and the step."""

from emrdm.training.average import MovingAverage
from emrdm.training.folder import RunFolder
from emrdm.training.loop import train
from emrdm.training.machine import Machine
from emrdm.training.order import Order
from emrdm.training.place import Outcome, Place

__all__ = ["Machine", "MovingAverage", "Order", "Outcome", "Place", "RunFolder", "train"]
