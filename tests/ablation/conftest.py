"""Studies train many small models: what tests/training looks at is left out here."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_curves():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emrdm.training.export.training_curves", lambda *_, **__: None)
        patch.setattr("emrdm.training.log._tensorboard", lambda *_: None)
        yield
