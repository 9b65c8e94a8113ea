"use strict";
// The page can be read without this: it lays pictures over each other, draws charts, and sorts and filters tables.
// Names are strangers' text: they are set as text and attributes, never as markup.

const make = (name, attributes = {}, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

const draw = (name, attributes = {}, text = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(text);
  return element;
};

const button = (text, action, attributes = {}) => {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", action);
  return element;
};

// Shown figures back to numbers; a missing one is NaN.
const toNumber = (text) => {
  const plain = text.replace("\u2212", "-").replace("\u221e", "Infinity");
  return plain === "\u2013" ? NaN : Number(plain);
};

const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

// A row of buttons of which one is pressed.
const choice = (label, entries, action) => {
  const group = make("div", { class: "choice", role: "group", "aria-label": label });
  const press = (chosen) => {
    for (const other of group.children) other.setAttribute("aria-pressed", other === chosen);
  };
  for (const [text, value, title = ""] of entries) {
    const one = button(text, () => { press(one); action(value); }, { "aria-pressed": "false", title });
    group.append(one);
  }
  press(group.firstElementChild);
  return group;
};

// Pictures ---------------------------------------------------------------------------------------------------------

const layOver = (frames) => {
  const best = frames.dataset.best;
  const pictures = new Map();
  for (const figure of frames.querySelectorAll("figure")) {
    const image = figure.querySelector("img");
    if (!image) continue;
    const title = figure.querySelector("figcaption").textContent;
    pictures.set(figure.dataset.what, { image, title });
  }
  const after = pictures.get(best);
  const others = [...pictures].filter(([what]) => what !== best);
  if (!after || !others.length) return;

  const layer = make("div", { class: "before" });
  const left = make("span", { class: "tag left" });
  const right = make("span", { class: "tag right" }, after.title);
  const slider = make("input", { type: "range", min: 0, max: 100, step: 1, value: 50 });
  const stage = make("div", { class: "stage" }, after.image.cloneNode(), layer, left, right,
    make("span", { class: "handle", "aria-hidden": "true" }), slider);

  const move = (percent) => {
    slider.value = Math.min(100, Math.max(0, percent));
    stage.style.setProperty("--at", `${slider.value}%`);
    slider.setAttribute("aria-valuetext", `${Math.round(slider.value)}% ${left.textContent}`);
  };
  const follow = (event) => {
    const box = stage.getBoundingClientRect();
    move((100 * (event.clientX - box.left)) / box.width);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    stage.setPointerCapture(event.pointerId);
    follow(event);
    slider.focus({ preventScroll: true, focusVisible: false });
    event.preventDefault();
  });
  stage.addEventListener("pointermove", (event) => {
    if (stage.hasPointerCapture(event.pointerId)) follow(event);
  });
  slider.addEventListener("input", () => move(Number(slider.value)));

  const compare = (what) => {
    const error = what === null;
    const shown = error ? [pictures.get("target"), after] : [pictures.get(what)];
    layer.replaceChildren(...shown.map((picture) => picture.image.cloneNode()));
    layer.classList.toggle("error", error);
    left.textContent = error ? "Error \u00d7 4" : shown[0].title;
    slider.setAttribute("aria-label", `How much of the picture shows ${left.textContent} instead of ${after.title}`);
    move(Number(slider.value));
  };
  const entries = others.map(([what, picture]) => [picture.title, what]);
  if (pictures.has("target")) entries.push(["Error", null, "Difference to the target, four times as bright"]);
  frames.before(stage, choice(`Compare ${after.title} with`, entries, compare));
  compare(others[0][0]);
  frames.closest(".case").classList.add("live");
};

document.querySelectorAll(".frames").forEach(layOver);

const gallery = document.querySelector(".gallery");
if (gallery && gallery.querySelector(".live")) {
  const set = (side) => gallery.classList.toggle("side", side);
  gallery.before(choice("How pictures are shown", [["Slider", false], ["Side by side", true]], set));
}

// Tables -----------------------------------------------------------------------------------------------------------

const STEP = 200;
const collator = new Intl.Collator("en", { numeric: true });

const readRows = (panel, table) => {
  const data = panel.querySelector('script[type="application/json"]');
  if (data) return JSON.parse(data.textContent).map((cells) => ({ cells }));
  return [...table.tBodies[0].rows].map((row) => ({ cells: [...row.cells].map((cell) => cell.textContent) }));
};

// Rows of thousands of images are made when they come into view of the reader, not before.
const rowElement = (entry) => {
  if (!entry.row) {
    const [name, ...rest] = entry.cells;
    entry.row = make("tr", {}, make("th", { scope: "row" }, name));
    for (const text of rest) {
      const side = text.startsWith("+") ? "up" : text.startsWith("\u2212") ? "down" : "";
      entry.row.append(make("td", side ? { class: side } : {}, text));
    }
  }
  return entry.row;
};

const enliven = (panel) => {
  const table = panel.querySelector("table.images");
  const rows = readRows(panel, table);
  const state = { rows, text: "", limit: STEP };
  const status = make("span", { class: "quiet", role: "status" });
  const filter = make("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter images by name" });
  const more = button("Show more", () => { state.limit += STEP; show(); });

  const show = () => {
    const text = state.text.toLowerCase();
    const found = state.rows.filter((entry) => entry.cells[0].toLowerCase().includes(text));
    const whole = (entry) => text !== "" && entry.cells[0].toLowerCase() === text;
    found.sort((one, two) => whole(two) - whole(one));
    const visible = found.slice(0, state.limit);
    table.tBodies[0].replaceChildren(...visible.map(rowElement));
    const total = count(rows.length, "image");
    const part = found.length === rows.length ? total : `${found.length.toLocaleString("en")} of ${total}`;
    status.textContent = visible.length === found.length ? part : `${part}, the first ${visible.length} shown`;
    more.hidden = visible.length === found.length;
  };
  const sortBy = (column, head) => {
    const now = head.getAttribute("aria-sort");
    const names = column === 0;
    const up = now ? now === "descending" : names;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keys = new Map(rows.map((entry) => [entry, names ? entry.cells[0] : toNumber(entry.cells[column])]));
    state.rows = [...rows].sort((one, two) => {
      const [a, b] = [keys.get(one), keys.get(two)];
      if (names) return (up ? 1 : -1) * collator.compare(a, b);
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b); // always last
      return a === b ? 0 : (up ? 1 : -1) * (a < b ? -1 : 1);
    });
    show();
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const press = button("", () => sortBy(column, head));
    press.append(...head.childNodes);
    head.append(press);
  });
  panel.prepend(make("div", { class: "tools" }, filter, status));
  panel.append(more);
  const apply = (text) => { state.text = filter.value = text; state.limit = STEP; show(); };
  filter.addEventListener("input", () => apply(filter.value));
  show();
  return { panel, table, rows, apply };
};

const panels = [...document.querySelectorAll("[data-tab]")].map(enliven);

if (panels.length > 1) {
  const open = (chosen) => panels.forEach(({ panel }) => panel.classList.toggle("shut", panel !== chosen));
  const tabs = choice("Protocol", panels.map(({ panel }) => [`${panel.dataset.tab} protocol`, panel]), open);
  panels[0].panel.before(tabs);
  open(panels[0].panel);
}

// Charts -----------------------------------------------------------------------------------------------------------

// Round numbers that cover a range.
const grid = (low, high, parts) => {
  if (high <= low) [low, high] = [low - 1, high + 1];
  const rough = (high - low) / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough * 0.7);
  const marks = [];
  for (let i = Math.floor(low / step); i <= Math.ceil(high / step); i += 1) marks.push(Number((i * step).toFixed(9)));
  return marks;
};

const least = (values) => values.reduce((one, two) => Math.min(one, two));
const greatest = (values) => values.reduce((one, two) => Math.max(one, two));

const titled = (shape, text) => {
  shape.append(draw("title", {}, text));
  return shape;
};

const columnsOf = ({ table, rows }) => [...table.tHead.rows[0].cells].flatMap((head, column) => {
  if (!head.dataset.colour) return [];
  const title = head.querySelector("small:last-child").textContent;
  const values = rows.map((entry) => ({ name: entry.cells[0], value: toNumber(entry.cells[column]) }));
  return [{ title, colour: head.dataset.colour, values }];
});

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

const histogram = (svg, width, columns) => {
  const drawn = columns.map((column) => ({ ...column, values: column.values.filter(({ value }) => Number.isFinite(value)) }))
    .filter((column) => column.values.length);
  const all = drawn.flatMap((column) => column.values.map(({ value }) => value));
  const unseen = columns.flatMap((column) => column.values).filter(({ value }) => value === Infinity).length;
  if (!all.length) return [0, unseen];
  const parts = Math.min(40, Math.max(12, 3 * Math.sqrt(all.length / drawn.length)));
  const edges = grid(least(all), greatest(all), parts);
  const [low, high, step] = [edges[0], edges[edges.length - 1], edges[1] - edges[0]];
  const [left, right] = [10, width - 10];
  const tall = Math.min(150, Math.max(84, 420 / drawn.length));
  const x = (value) => left + ((value - low) / (high - low)) * (right - left);
  const bins = drawn.map((column) => {
    const parts = edges.slice(1).map(() => []);
    for (const entry of column.values) {
      parts[Math.min(parts.length - 1, Math.floor((entry.value - low) / step + 1e-9))].push(entry.name);
    }
    return parts;
  });
  const most = Math.max(...bins.flat().map((part) => part.length));
  const bottom = drawn.length * tall;
  for (const mark of grid(low, high, Math.max(3, width / 90)).filter((value) => value >= low && value <= high)) {
    svg.append(draw("line", { x1: x(mark), x2: x(mark), y1: 0, y2: bottom, class: "grid" }));
    svg.append(draw("text", { x: x(mark), y: bottom + 18, "text-anchor": "middle" }, String(mark)));
  }
  drawn.forEach((column, row) => {
    const base = (row + 1) * tall;
    const group = draw("g", { class: column.colour });
    bins[row].forEach((names, i) => {
      if (!names.length) return;
      const height = Math.max(2, (names.length / most) * (tall - 34));
      const box = { x: x(edges[i]) + 0.5, y: base - height, width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 1), height };
      const some = names.slice(0, 8).join("\n") + (names.length > 8 ? `\nand ${names.length - 8} more` : "");
      const text = `${column.title}: ${count(names.length, "image")} from ${edges[i]} to ${edges[i + 1]} dB\n${some}`;
      group.append(titled(draw("rect", { ...box, class: "bar", rx: 1.5 }), text));
    });
    const middle = median(column.values.map(({ value }) => value));
    group.append(draw("line", { x1: x(middle), x2: x(middle), y1: base - tall + 26, y2: base, class: "median" }));
    svg.append(draw("line", { x1: left, x2: right, y1: base, y2: base, class: "axis" }), group);
    const label = draw("text", { x: left, y: base - tall + 18, class: "name" }, column.title);
    label.append(draw("tspan", { class: "soft", dx: 8 }, `median ${middle.toFixed(2)} dB`));
    svg.append(label);
  });
  svg.append(draw("text", { x: right, y: bottom + 36, "text-anchor": "end" }, "PSNR, dB"));
  return [bottom + 44, unseen];
};

const scatter = (svg, width, columns) => {
  const before = columns.find((column) => column.colour === "gray");
  const after = columns[0];
  const points = after.values.map(({ name, value }, i) => ({ name, y: value, x: before.values[i].value }))
    .filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y));
  const unseen = after.values.filter(({ value }, i) => Math.max(value, before.values[i].value) === Infinity).length;
  if (!points.length) return [0, unseen];
  const many = points.length > 500;
  const all = points.flatMap((point) => [point.x, point.y]);
  const marks = grid(least(all), greatest(all), 7);
  const [low, high] = [marks[0], marks[marks.length - 1]];
  const [left, top] = [44, 10];
  const size = Math.min(width - left - 12, 460);
  const x = (value) => left + ((value - low) / (high - low)) * size;
  const y = (value) => top + size - ((value - low) / (high - low)) * size;
  svg.append(draw("path", { d: `M${x(low)} ${y(low)}L${x(high)} ${y(high)}L${x(low)} ${y(high)}Z`, class: "better" }));
  for (const mark of marks) {
    svg.append(draw("line", { x1: x(mark), x2: x(mark), y1: top, y2: top + size, class: "grid" }));
    svg.append(draw("line", { x1: left, x2: left + size, y1: y(mark), y2: y(mark), class: "grid" }));
    svg.append(draw("text", { x: x(mark), y: top + size + 18, "text-anchor": "middle" }, String(mark)));
    svg.append(draw("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, String(mark)));
  }
  svg.append(draw("line", { x1: x(low), y1: y(low), x2: x(high), y2: y(high), class: "axis" }));
  svg.append(draw("text", { x: left + 12, y: top + 22, class: "soft" }, "better than the cloudy image"));
  svg.append(draw("text", { x: left + size - 12, y: top + size - 12, "text-anchor": "end", class: "soft" }, "worse"));
  for (const point of points) {
    const side = `point ${many ? "many " : ""}${point.y > point.x ? "colour0" : "lost"}`;
    const circle = draw("circle", { cx: x(point.x), cy: y(point.y), r: many ? 3 : 4.5, class: side });
    circle.addEventListener("click", () => find(point.name));
    svg.append(titled(circle, `${point.name}\n${point.x.toFixed(2)} dB, then ${point.y.toFixed(2)} dB`));
  }
  svg.append(draw("text", { x: left + size, y: top + size + 36, "text-anchor": "end" }, "cloudy image, PSNR in dB"));
  const vertical = { x: 0, y: 0, transform: `translate(11 ${top + size}) rotate(-90)` };
  svg.append(draw("text", vertical, `${after.title}, PSNR in dB`));
  return [top + size + 44, unseen];
};

// A click on a point shows its row.
const find = (name) => {
  document.querySelector(".tabs > .choice button")?.click();
  panels[0].apply(name);
  panels[0].panel.scrollIntoView({ behavior: "smooth" });
};

const columns = panels.length ? columnsOf(panels[0]) : [];
for (const figure of document.querySelectorAll("[data-chart]")) {
  const frame = make("div", { class: "frame" });
  figure.append(frame);
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(frame.clientWidth);
    if (!width || width === last) return; // its own height changes nothing
    last = width;
    const svg = draw("svg", { role: "img", "aria-label": figure.querySelector("figcaption").textContent });
    const [height, unseen] = (figure.dataset.chart === "scatter" ? scatter : histogram)(svg, width, columns);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    frame.replaceChildren(height ? svg : make("p", { class: "quiet" }, "Nothing to draw."));
    if (unseen) frame.append(make("p", { class: "quiet" }, `Not drawn: ${count(unseen, "infinite score")}.`));
  }).observe(frame);
}

// Paper cannot be opened.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
