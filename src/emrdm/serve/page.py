"""The page: what is on it, and what happens when something is pressed. Gradio draws it; nothing is computed here."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import gradio as gr

from emrdm.errors import EmrdmError, InputError
from emrdm.serve.desk import Desk
from emrdm.serve.work import CancelledError, News, Order, Outcome

STYLE = Path(__file__).parent / "page.css"
TITLE = "emrdm: remove clouds from satellite images"
KINDS = [".tif", ".tiff", ".png", ".jpg", ".jpeg", ".webp"]
_SYSTEM_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
_HIDDEN = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}


def theme() -> Any:
    """Colours, and fonts that every system has: nothing is loaded from outside."""
    return gr.themes.Default(
        primary_hue="sky",
        neutral_hue="slate",
        font=_SYSTEM_FONTS,
        font_mono=["ui-monospace", "Menlo", "Consolas", "monospace"],
    )


def status(text: str, kind: str = "plain", share: float | None = None) -> str:
    """The line that says what is going on, as HTML; file names in it are text, whatever they hold."""
    width = 0 if share is None else round(100 * min(max(share, 0.0), 1.0))
    moving = " waiting" if kind == "busy" and share is None else ""
    bar = f'<div class="bar{moving}"><i style="width:{width}%"></i></div>' if kind == "busy" else ""
    return f'<div class="status {kind}" role="status">{bar}<p>{html.escape(text)}</p></div>'


@final
class Page:
    """Builds the page for a desk."""

    def __init__(self, desk: Desk, example: Path, limit: str) -> None:
        self.desk, self.shelf, self.example, self.limit = desk, desk.shelf, example, limit

    def build(self) -> Any:
        """The page as Gradio's Blocks."""
        with gr.Blocks(title=TITLE, analytics_enabled=False) as page:
            gr.HTML(
                "<h1>Remove clouds from satellite images</h1>"
                "<p>Everything stays on this computer. Drop an image, press <b>Remove clouds</b>, watch, download.</p>",
                padding=False,
                elem_classes="head",
            )
            with gr.Row(elem_classes="body"):  # in the order of a narrow window; page.css has that of a wide one
                for part in (self._drop, self._actions, self._results, self._settings):
                    with gr.Column(min_width=320, elem_classes=part.__name__.strip("_")):
                        part()
            self._connect(page)
        return page

    # ---------------------------------------------------------------- what is there

    def _drop(self) -> None:
        names = list(self.shelf.offers)
        first = self.shelf.offers[names[0]]
        self.files = gr.File(
            label=f"Images, up to {self.limit} each",
            file_count="multiple",
            file_types=KINDS,
            height=170,
            elem_id="files",
        )
        gr.Markdown("GeoTIFF, PNG, JPEG or WebP. No image at hand?", elem_classes="about")
        self.take_example = gr.Button("Take the example", size="sm", elem_id="example")
        self.model = gr.Dropdown(names, value=names[0], label="Model", elem_id="model", filterable=False)
        self.about = gr.Markdown(first.takes, elem_classes="about")
        self.radar = gr.File(
            label="Radar image: one for all dates, or one each",
            file_count="multiple",
            file_types=KINDS,
            height=120,
            visible=bool(first.config.aux),
            elem_id="radar",
        )

    def _settings(self) -> None:
        first = next(iter(self.shelf.offers.values()))
        with gr.Row(elem_classes="numbers"):
            self.steps = gr.Slider(
                1, 25, value=first.config.sampler.steps, step=1, label="Steps", info="more is slower", elem_id="steps"
            )
            self.samples = gr.Slider(
                1, 16, value=1, step=1, label="Samples", info="2 or more: uncertainty", elem_id="samples"
            )
        self.seed = gr.Number(value=0, precision=0, minimum=0, label="Seed", info="another one: another guess")
        self.masks = gr.Checkbox(
            value=True, label="Show which dates the model looked at", visible=first.series, elem_id="masks"
        )
        with gr.Accordion("If a file is not understood", open=False):
            self.range = gr.Textbox(
                label="Range of values",
                placeholder="0:3000, or auto",
                info="what is black and white",
                max_length=64,
            )
            self.bands = gr.Textbox(
                label="Band names", placeholder="B4, B3, B2", info="where the file has none", max_length=400
            )
            self.dates = gr.Textbox(
                label="Dates", placeholder="2024-05-01, 2024-05-11", info="of a series, where names do not tell",
                max_length=800,
            )  # fmt: skip

    def _actions(self) -> None:
        with gr.Row():
            self.run = gr.Button("Remove clouds", variant="primary", interactive=False, scale=3, elem_id="run")
            self.stop = gr.Button("Cancel", interactive=False, scale=1, min_width=100, elem_id="cancel")
        self.status = gr.HTML(status("Drop an image, or take the example."), padding=False, elem_id="status")

    def _results(self) -> None:
        self.watched = gr.Image(
            label="Your image", show_label=True, interactive=False, buttons=[], visible=False, elem_id="watched"
        )
        with gr.Column(visible=False, elem_id="result") as self.result:
            self.chosen = gr.Dropdown([], label="Image", visible=False, elem_id="chosen", filterable=False)
            with gr.Tabs() as self.tabs:
                with gr.Tab("Compare", id="compare"):
                    self.slider = gr.ImageSlider(
                        show_label=False, interactive=False, buttons=["fullscreen"], max_height=900, elem_id="slider"
                    )
                    gr.Markdown("Drag the handle: before on the left, after on the right.", elem_classes="about")
                with gr.Tab("Uncertainty", visible=False) as self.spread_tab:
                    self.spread = gr.Image(
                        show_label=False, interactive=False, buttons=["fullscreen"], elem_id="uncertainty"
                    )
                    self.scale = gr.HTML(padding=False)
                with gr.Tab("Dates", visible=False) as self.masks_tab:
                    self.mask_pictures = gr.Gallery(
                        show_label=False,
                        columns=3,
                        height="auto",
                        buttons=[],
                        interactive=False,
                        elem_id="attention",
                        fit_columns=False,
                    )
                    gr.Markdown(
                        "The brighter the colour, the more was taken from that day; with the share of each.",
                        elem_classes="about",
                    )
                with gr.Tab("Steps"):
                    self.step_pictures = gr.Gallery(
                        show_label=False, columns=3, height="auto", buttons=[], interactive=False, elem_id="history"
                    )
            self.downloads = gr.File(
                label="Download", file_count="multiple", interactive=False, elem_id="downloads", height="auto"
            )
        self.outcomes = gr.State([])

    # ---------------------------------------------------------------- what happens

    def _connect(self, page: Any) -> None:
        wishes = [
            self.files, self.model, self.steps, self.samples, self.seed, self.radar, self.range, self.bands, self.dates,
            self.masks,
        ]  # fmt: skip
        shown = [
            self.chosen, self.tabs, self.slider, self.spread_tab, self.spread, self.scale, self.masks_tab,
            self.mask_pictures, self.step_pictures, self.downloads,
        ]  # fmt: skip
        looked = [self.status, self.watched, self.result, self.run]
        for change in (
            self.files.change, self.radar.change, self.range.submit, self.bands.submit, self.dates.submit,
        ):  # fmt: skip
            change(self._look, wishes, looked, **_HIDDEN)
        self.take_example.click(lambda: [str(self.example)], None, self.files, **_HIDDEN)
        self.model.change(self._describe, self.model, [self.about, self.radar, self.steps, self.masks], **_HIDDEN).then(
            self._look, wishes, looked, **_HIDDEN
        )
        self.run.click(
            self._restore,
            wishes,
            [self.status, self.watched, self.result, self.run, self.stop, self.outcomes, *shown],
            **_HIDDEN,
        )
        self.stop.click(self._cancel, None, self.stop, **_HIDDEN)
        self.chosen.input(self._choose, [self.chosen, self.outcomes], shown, **_HIDDEN)
        page.unload(self._leave)

    def _order(self, visitor: str, wishes: tuple[Any, ...]) -> Order:
        files, model, steps, samples, seed, radar, span, bands, dates, masks = wishes
        images, others = (tuple(Path(name) for name in names or ()) for names in (files, radar))
        self.desk.uploaded(visitor, (*images, *others))
        return Order(
            files=images,
            model=model,
            steps=int(steps),
            samples=int(samples),
            seed=int(seed or 0),
            radar=others if self.shelf.offer(model).config.aux else (),
            range=span or "",
            bands=bands or "",
            dates=dates or "",
            masks=bool(masks),
        )

    def _look(self, request: gr.Request, *wishes: Any) -> tuple[Any, ...]:
        """Show what was dropped, or say at once why it cannot be restored."""
        if not wishes[0]:
            text = status("Drop an image, or take the example.")
            return text, gr.update(visible=False), gr.update(visible=False), gr.update(interactive=False)
        try:
            visitor = _visitor(request)
            picture, text = self.desk.look(visitor, self._order(visitor, wishes))
        except EmrdmError as error:
            return (
                status(str(error), "wrong"),
                gr.update(visible=False),
                gr.update(visible=False),
                gr.update(interactive=False),
            )
        shown = gr.update(value=str(picture), visible=True, label="Your image")
        return status(text), shown, gr.update(visible=False), gr.update(interactive=True)

    def _describe(self, name: str) -> tuple[Any, ...]:
        """What the chosen model takes."""
        offer = self.shelf.offer(name)
        return (
            offer.takes,
            gr.update(visible=bool(offer.config.aux)),
            gr.update(value=offer.config.sampler.steps),
            gr.update(visible=offer.series),
        )

    def _restore(self, request: gr.Request, *wishes: Any) -> Iterator[dict[Any, Any]]:
        """Order it, and show what is told of it."""
        try:
            visitor = _visitor(request)
            job = self.desk.submit(visitor, self._order(visitor, wishes))
            yield {
                self.status: status("Beginning.", "busy"),
                self.result: gr.update(visible=False),
                self.run: gr.update(interactive=False),
                self.stop: gr.update(interactive=True),
            }
            for news in self.desk.news(job):
                yield self._told(news)
        except EmrdmError as error:
            text = status("Cancelled.") if isinstance(error, CancelledError) else status(str(error), "wrong")
            yield {self.status: text, self.run: gr.update(interactive=True), self.stop: gr.update(interactive=False)}
            return
        names = [f"{i + 1}: {outcome.name}" for i, outcome in enumerate(job.outcomes)]
        parts = self._parts(job.outcomes[0], gr.update(choices=names, value=names[0], visible=len(names) > 1))
        yield {
            self.status: status("; ".join(f"Done: {outcome.summary}" for outcome in job.outcomes[:1]), "done"),
            self.watched: gr.update(visible=False),
            self.result: gr.update(visible=True),
            self.run: gr.update(interactive=True),
            self.stop: gr.update(interactive=False),
            self.outcomes: list(job.outcomes),
            **parts,
        }

    def _told(self, news: News) -> dict[Any, Any]:
        found: dict[Any, Any] = {self.status: status(news.text, "busy", news.share)}
        if news.picture is not None:
            found[self.watched] = gr.update(value=str(news.picture), visible=True, label="What the model thinks now")
        return found

    def _choose(self, name: str, outcomes: list[Outcome]) -> dict[Any, Any]:
        """Another of several images."""
        number = int(name.partition(":")[0]) - 1
        return self._parts(outcomes[number], gr.update())

    def _parts(self, outcome: Outcome, choice: Any) -> dict[Any, Any]:
        spread = None if outcome.uncertainty is None else str(outcome.uncertainty)
        return {
            self.chosen: choice,
            self.tabs: gr.update(selected="compare"),  # the one that was open may not be there now
            self.slider: (str(outcome.before), str(outcome.after)),
            self.spread_tab: gr.update(visible=spread is not None),
            self.spread: spread,
            self.scale: _scale(outcome.highest),
            self.masks_tab: gr.update(visible=bool(outcome.masks)),
            self.mask_pictures: [(str(path), caption) for path, caption in outcome.masks],
            self.step_pictures: [(str(path), caption) for path, caption in outcome.steps],
            self.downloads: [str(path) for path in outcome.downloads],
        }

    def _cancel(self, request: gr.Request) -> Any:
        self.desk.cancel(_visitor(request))
        return gr.update(interactive=False)

    def _leave(self, request: gr.Request) -> None:
        self.desk.leave(_visitor(request))
        if self.desk.uploads is not None:  # Gradio leaves an empty one for every file that it hands over
            for path in self.desk.uploads.glob("tmp*"):
                if path.is_file() and not path.stat().st_size:
                    path.unlink(missing_ok=True)


def _visitor(request: gr.Request) -> str:
    """Who it is: a number that the page makes up when it is opened, and nobody else knows."""
    if not request.session_hash:
        raise InputError("this is a page, not an interface for programs: expected a browser, or emrdm restore")
    return str(request.session_hash)


def _scale(highest: float) -> str:
    """The colours of the uncertainty, with their numbers."""
    return (
        '<div class="scale"><span>standard deviation: 0</span><i></i>'
        f"<span>{highest:.3g} and more, in the image's own numbers</span></div>"
    )
