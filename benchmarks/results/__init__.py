"""The results on RICE1 and RICE2: measured, gathered from runs, and written down as a page with tables and plots.

python -m benchmarks.results score MODEL --name NAME --rice ROOT --out RUNS    the two test lists, once
python -m benchmarks.results sweep MODEL --name NAME --rice ROOT --out RUNS    settings of the sampler, on validation
python -m benchmarks.results collect FOLDER ... --out RUNS                     studies and runs that are finished
python -m benchmarks.results page RUNS --docs docs                             the page, from what is there

ROOT has RICE1/ and RICE2/; RUNS gets small JSON files, which are all that the page is made from.
"""
