"""What a machine has, in words."""

from emrdm import load_preset
from emrdm.devices import describe_devices


def test_the_cpu_is_always_described(monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    found = describe_devices()
    software, cpu = next(iter(found)), next(title for title in found if title.startswith("cpu"))
    assert software.startswith("torch 2.")
    assert cpu == "cpu, 1 thread"
    assert found[cpu]["restoring"].startswith("fused operations in ")
    assert found[cpu]["exact"] == "plain network in float32, tiled attention (exact)"
    assert found[cpu]["kernels"] == "not usable: no kernels for a cpu"
    assert found[cpu]["training"].startswith("tiled attention, eager")
    assert "choices.json" in found[software]["caches"]


def test_choices_of_the_user_are_told(monkeypatch):
    monkeypatch.setenv("EMRDM_EXACT", "1")
    monkeypatch.setenv("EMRDM_ATTENTION", "reference")
    found = describe_devices(load_preset("tiny").model)
    cpu = next(facts for title, facts in found.items() if title.startswith("cpu"))
    assert cpu["restoring"] == "plain network in float32, reference attention (EMRDM_EXACT=1)"
