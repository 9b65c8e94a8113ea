"""Files of results with made-up numbers."""

from benchmarks.results import store

SAMPLER = {"method": "stochastic", "steps": 4, "churn": 0.1, "noise": 0.995}


def scores(psnr, ssim=0.9, lpips=0.1, **more):
    values = {"psnr": psnr, "ssim": ssim, "lpips": lpips, **more}
    return {m: {"mean": v, "low": v - 0.2 * abs(v), "high": v + 0.2 * abs(v), "images": 9} for m, v in values.items()}


def scores_file(folder, name, psnr, *, baselines=True):
    def method(title, kind, value):
        standard = scores(value, mae=0.05, sam=3.0, rmse=0.07, **{"psnr/cloudy": value - 2, "psnr/clear": value + 2})
        return {"title": title, "kind": kind, "protocols": {"standard": standard, "cuhk": scores(value - 1, rmse=0.07)}}

    methods = {"model": method(name, "model", psnr)}
    if baselines:
        methods |= {"cloudy-image": method("the cloudy image itself", "baseline", 18.68)}
        methods |= {"dark-channel": method("dark-channel dehazing", "baseline", 22.25)}
    found = {"title": "RICE", "split": "test", "images": 9, "notes": [], "seconds_an_image": 0.0123, "methods": methods}
    facts = {"kind": "score", "name": name, "command": f"python -m benchmarks.results score {name}", "emrdm": "0.1.0"}
    facts |= {"device": "a GPU", "batch_size": 16, "sampler": SAMPLER, "datasets": {"rice1": found, "rice2": found}}
    model = {
        "title": "",
        "source": "trained",
        "training": "on both",
        "digest": "d" * 64,
        "parameters": 11,
        "numbers": "f",
    }
    return store.write(folder, f"test-{name}", {**facts, "model": model})


def sweep_file(folder, name):
    def row(method, steps, churn, psnr):
        gain = {"mean": psnr - 30, "low": psnr - 30.1, "high": psnr - 29.9, "images": 9}
        found = {
            "scores": scores(psnr),
            "gain": {"psnr": gain, "lpips": {"mean": 0.0}},
            "seconds_an_image": 0.002 * steps,
        }
        calls = 2 * steps - 1 if method == "heun" else steps
        sets = {"rice1": found, "rice2": found}
        return {"method": method, "steps": steps, "churn": churn, "calls": calls, "datasets": sets}

    parts = {
        "steps": [row("stochastic", n, 0.1, 30 - abs(n - 5)) for n in (1, 2, 3, 4, 5, 8, 16)],
        "churn": [row("stochastic", 4, churn, 30 - 0.1 * churn) for churn in (0, 0.1, 0.3, 1, 3, 10)],
        "methods": [
            row(m, n, 0.1 * (m == "stochastic"), 29 + n / 10) for m in ("euler", "heun", "stochastic") for n in (3, 4)
        ],
    }
    sets = {key: {"images": 9, "notes": []} for key in ("rice1", "rice2")}
    facts = {"kind": "sweep", "name": name, "command": "python -m benchmarks.results sweep", "protocol": "standard"}
    return store.write(folder, f"sweep-{name}", {**facts, "sampler": SAMPLER, "datasets": sets, "parts": parts})


def study_file(folder, study, ours, paper, pairs=()):
    """Cases by label with our PSNR on RICE1 and the paper's."""
    trained = {"steps": 2000, "planned": 2000, "samples_a_step": 16, "seconds": 100.0, "device": "a GPU", "seeds": 1}
    cases = [
        {
            "label": label,
            "paper": paper[label],
            "datasets": {"rice1": {**trained, "split": "val", "scores": scores(psnr)}},
        }
        for label, psnr in ours.items()
    ]
    facts = {
        "kind": "study",
        "study": study,
        "title": f"Effect of {study}",
        "source": "Table 3",
        "protocol": "standard",
    }
    facts |= {"base": "rgb-small", "commands": ["emrdm ablate"], "notes": ["one seed"], "cases": cases}
    return store.write(folder, f"study-{study}", {**facts, "pairs": {"rice1": list(pairs)}})


def recipes_file(folder):
    def run(name, end, changed):
        sets = {"rice1": end, "rice2": end + 1}
        return {
            "name": name,
            "base": "rgb-small",
            "changed": changed,
            "steps": 300,
            "planned": 400 if changed else 300,
            "samples_a_step": 16,
            "seconds": 150.0,
            "steps_a_second": 2.0,
            "device": "a GPU",
            "untouched": {"rice1": 18.5, "rice2": 23.0},
            "end": {key: {"psnr": value} for key, value in sets.items()},
            "best": {"step": 200},
            "curve": {"step": [100, 200, 300], **{key: [value - 2, value, value] for key, value in sets.items()}},
        }

    runs = [run("plain", 27.0, []), run("muon", 28.0, ['optimizer.name is "muon", was "adamw"'])]
    return store.write(folder, "recipes", {"kind": "recipes", "command": "collect", "runs": runs})


def lists_file(folder):
    psnr = {name: {"all": 30.0, "flat": 40.0, "textured": 25.0} for name in ("one-colour", "cloudy-image", "model")}
    row = {"images": 9, "flat": 3, "twins": 0, "nearest": 0.5, "psnr": psnr}
    facts = {"kind": "lists", "command": "python -m benchmarks.results lists default", "model": "rgb-small"}
    return store.write(folder, "lists", {**facts, "datasets": {"rice1": row, "rice2": row}})


def everything(folder):
    lists_file(folder)
    scores_file(folder, "rgb", 31.5, baselines=False)
    scores_file(folder, "rgb-small", 30.25)
    sweep_file(folder, "rgb-small")
    paper = {
        label: {"psnr": psnr, "ssim": 0.6, "lpips": 0.3} for label, psnr in (("alpha 0.5", 19.14), ("alpha 1", 19.44))
    }
    study_file(folder, "alpha", {"alpha 0.5": 27.0, "alpha 1": 28.0}, paper)
    printed = {"config-a": 12.81, "config-b": 18.26, "config-d": 19.52, "config-e": 19.47}
    study_file(
        folder,
        "modules",
        {"config-a": 20.0, "config-b": 27.0, "config-d": 27.1, "config-e": 27.3},
        {label: {"psnr": psnr} for label, psnr in printed.items()},
        [{"first": "config-d", "second": "config-e", "psnr": {"mean": -0.2, "low": -0.5, "high": 0.1, "images": 9}}],
    )
    recipes_file(folder)
    return folder
