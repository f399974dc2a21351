// The usage of a running task as curves, drawn from samples that are taken while the page is visible.
// Only the server that shows the page measures; the task and its shim notice nothing.

const section = document.querySelector("[data-usage]");
const SAMPLE_MS = 2000;
const MAX_SAMPLES = 300;
const WIDTH = 300;
const HEIGHT = 60;
const SVG = "http://www.w3.org/2000/svg";

const units = (bytes) => {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let step = 0;
  while (value >= 1024 && step < names.length - 1) { value /= 1024; step += 1; }
  return `${value < 10 && step > 0 ? value.toFixed(1) : Math.round(value)} ${names[step]}`;
};

const CURVES = [
  { name: "CPU", read: (sample) => sample.cpu_percent, show: (value) => `${Math.round(value)} %` },
  { name: "Memory", read: (sample) => sample.memory_bytes, show: units },
  { name: "Output rate", read: (sample) => sample.output_rate, show: (value) => `${units(value)}/s` },
];

function makeCurve({ name }) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const line = document.createElementNS(SVG, "polyline");
  svg.append(line);
  figure.append(caption, svg);
  caption.textContent = name;
  return { figure, caption, svg, line };
}

/** Draws the values, of which null is unknown, from the left to the right. */
function draw(curve, parts, samples) {
  const values = samples.map(curve.read);
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return;
  const most = Math.max(...known, 1);
  const step = WIDTH / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, at) =>
    (value === null ? [] : [`${(at * step).toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`]));
  parts.line.setAttribute("points", points.join(" "));
  const text = `${curve.name} ${curve.show(known.at(-1))}, at most ${curve.show(Math.max(...known))}`;
  parts.caption.textContent = text;
  parts.svg.setAttribute("aria-label", text);
}

if (section) {
  const samples = [];
  const parts = CURVES.map(makeCurve);
  const heading = document.createElement("h2");
  heading.textContent = "Usage since this page was opened";
  const row = document.createElement("div");
  row.className = "curves";
  row.append(...parts.map((part) => part.figure));
  section.append(heading, row);

  const sample = async () => {
    if (document.hidden) return;
    const answer = await fetch(`/api/v1/tasks/${section.dataset.usage}/usage`).catch(() => null);
    // A task that has ended keeps its curves. After a lost connection, the next sample may succeed.
    if (answer && answer.status === 409) { clearInterval(timer); return; }
    if (!answer || !answer.ok) return;
    samples.push(await answer.json());
    if (samples.length > MAX_SAMPLES) samples.shift();
    CURVES.forEach((curve, at) => draw(curve, parts[at], samples));
    section.hidden = false;
  };
  const timer = setInterval(sample, SAMPLE_MS);
  sample();
}
