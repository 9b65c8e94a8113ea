"""Numbers that keep the random streams of a run apart; see :func:`emrdm.noise.fold`."""

# of the run's seed; the model's own start is fold(seed, 0) of another kind, a generator's
ORDER, AUGMENTATION, DROPOUT = 0, 1, 2

# of a draw's key; 0 to 3 are the augmentation's
SIDES, CROPS, SIGMA, NOISE = 4, 5, 8, 9
