// The page: a list of jobs, or one job (or several, compared), looked at again and again until it has ended.

import { COLOURS, Charts } from "./charts.js";

const LOOK = 1000; // milliseconds between two looks
const PAGE = 1000; // rows of one reply; more are never given
const BUCKETS = 500; // stretches that a long curve is read in
const MOST_EVENTS = 500; // that are kept on the page
const OVER = new Set(["succeeded", "failed", "cancelled"]);
const $ = (id) => document.getElementById(id);

let view = 0; // counts the views: what belongs to an earlier one stops

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, method = "GET", body = undefined, headers = {}) {
  const key = sessionStorage.getItem("key");
  const reply = await fetch(path, {
    method, cache: "no-store",
    headers: { Authorization: `Bearer ${key}`, Accept: "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Refused(reply.status, said.detail ?? reply.statusText);
  return said;
}

const pause = (time) => new Promise((done) => setTimeout(done, time));
const about = (id, what = "") => `learning/jobs/${encodeURIComponent(id)}${what}`;
const short = (id) => (id.length > 16 ? `${id.slice(0, 12)}…` : id);
const moment = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });

function element(tag, text = "", more = {}) {
  return Object.assign(document.createElement(tag), { textContent: text, ...more });
}

function show(section) {
  for (const id of ["door", "jobs", "job"]) $(id).hidden = id !== section;
}

// Does something again and again while its view is shown; says so when the server does not answer.
async function watching(mine, look) {
  while (mine === view) {
    if (!document.hidden) {
      try {
        const goOn = await look();
        if (mine === view) $("state").textContent = goOn ? "Live" : "";
        if (!goOn) return;
      } catch (error) {
        if (mine !== view) return;
        if (error.status === 401 || error.status === 403) return knock("This key does not open the server.");
        if (error.status === 404) return void ($("state").textContent = error.message);
        $("state").textContent = error.status ? error.message : "The server does not answer; trying again.";
      }
    }
    await pause(LOOK);
  }
}

function knock(why = "") {
  view++;
  $("state").textContent = why;
  show("door");
  $("key").focus();
}

// -- the list

let chosen = new Set();
let limit = 50;

function list() {
  const mine = ++view;
  document.title = "Jobs – synth-ai";
  $("here").textContent = location.origin;
  show("jobs");
  let before = "";
  watching(mine, async () => {
    const { jobs } = await ask(`learning/jobs?limit=${limit}`);
    if (mine !== view) return false;
    $("none").hidden = jobs.length > 0;
    $("more").hidden = jobs.length < limit || limit >= PAGE;
    const now = JSON.stringify(jobs);
    if (now !== before) {
      before = now;
      drawRows(jobs);
    }
    return true;
  });
}

// Rows are changed in place, so that the focus stays where it is.
function drawRows(jobs) {
  const there = new Map([...$("rows").children].map((row) => [row.dataset.id, row]));
  const rows = jobs.map((job) => {
    const row = there.get(job.id) ?? newRow(job);
    const status = row.cells[2].firstChild;
    status.textContent = job.status;
    status.className = `status ${job.status}`;
    return row;
  });
  rows.forEach((row, at) => {
    if ($("rows").children[at] !== row) $("rows").insertBefore(row, $("rows").children[at] ?? null);
  });
  while ($("rows").children.length > rows.length) $("rows").lastChild.remove();
}

function newRow(job) {
  const row = element("tr");
  row.dataset.id = job.id;
  const box = element("input", "", { type: "checkbox", checked: chosen.has(job.id), ariaLabel: `Compare ${job.id}` });
  box.addEventListener("change", () => {
    box.checked ? chosen.add(job.id) : chosen.delete(job.id);
    $("compare").disabled = chosen.size < 2;
  });
  const link = element("a", job.name || short(job.id), { href: `#job=${encodeURIComponent(job.id)}`, title: job.id });
  const cells = [box, link, element("span"), kindOf(job), job.model, moment(job.created_at)];
  for (const cell of cells) row.insertCell().append(cell);
  return row;
}

const kindOf = (job) => (job.training_type.startsWith("rl") ? "RL" : "SFT");

// -- one job, or several

class Run {
  constructor(id) {
    this.id = id;
    this.label = short(id);
    this.series = new Map();
    this.step = 0;
    this.thinned = false; // whether only the lowest and highest values of stretches were read
    this.seq = 0;
    this.highest = 0;
    this.repeats = 0; // steps up to this one are done again
    this.told = []; // events that are not drawn yet
    this.more = false;
    this.job = null;
  }

  // The events that are new. A job that begins again, after its worker died, does the steps behind its last checkpoint
  // once more, and what it tells of them then is what counts: they are forgotten here, and read again.
  async events() {
    const { events } = await ask(about(this.id, `/events?since_seq=${this.seq}&limit=${PAGE}`));
    for (const { seq, type, data } of events) {
      const step = Number.isInteger(data?.step) ? data.step : 0;
      if (/\.(train|training)\.started$/.test(type)) this.repeats = Math.max(this.highest, this.step);
      else if (step && step <= this.repeats) this.#forgetFrom(step);
      this.highest = Math.max(this.highest, step);
      this.seq = seq;
    }
    this.told.push(...events);
    this.more = events.length === PAGE;
  }

  #forgetFrom(step) {
    if (step > this.step) return;
    this.step = step - 1;
    for (const [name, { steps, values }] of this.series) {
      while (steps.length && steps.at(-1) >= step) { steps.pop(); values.pop(); }
      if (!steps.length) this.series.delete(name);
    }
  }

  // Reads what is new of the job, its events and its points; whether there were any points.
  async look() {
    this.job = await ask(about(this.id));
    this.label = this.job.name || short(this.id);
    await this.events();
    // Thinned by the server, if they are many: what is new of a job that runs never is.
    const { points, stretch } = await ask(about(this.id, `/metrics?after_step=${this.step}&buckets=${BUCKETS}`));
    this.thinned ||= stretch > 1;
    this.step = add(points, this.series, this.step);
    return points.length > 0;
  }

  // Every point, page by page, in place of those that were chosen.
  async readAll() {
    const series = new Map();
    for (let step = 0; ;) {
      const { points } = await ask(about(this.id, `/metrics?after_step=${step}&limit=${PAGE}`));
      // A reply holds whole steps, so one that is not full says nothing: only an empty one is the last.
      if (!points.length) return Object.assign(this, { series, step, thinned: false });
      step = add(points, series, step);
    }
  }
}

// Adds points to curves, each once, and gives the last step of all.
function add(points, all, last) {
  for (const { name, step, value } of points) {
    if (!all.has(name)) all.set(name, { steps: [], values: [] });
    const { steps, values } = all.get(name);
    if (step <= (steps.at(-1) ?? 0)) continue;
    steps.push(step);
    values.push(value);
    last = Math.max(last, step);
  }
  return last;
}

let charts = null;
let runs = [];

function redraw() {
  if (!charts) return;
  const some = runs.some((run) => run.series.size);
  $("no-points").hidden = some;
  if (some && window.Plotly) charts.draw(runs, { smoothing: Number($("smoothing").value), log: $("log").checked });
}

function open(ids) {
  const mine = ++view;
  runs = ids.map((id) => new Run(id));
  charts?.sizes.disconnect();
  $("charts").replaceChildren();
  charts = new Charts($("charts"));
  const one = ids.length === 1;
  document.title = `${one ? short(ids[0]) : "Compared"} – synth-ai`;
  $("job-title").textContent = one ? ids[0] : `${ids.length} jobs compared`;
  for (const id of ["events", "samples", "facts"]) $(id).replaceChildren();
  for (const id of ["log-text", "config", "status"]) $(id).textContent = "";
  for (const id of ["cancel", "retry", "reason", "samples-box"]) $(id).hidden = true;
  $("details").hidden = !one;
  $("no-points").hidden = false;
  show("job");
  let logged = 0;
  watching(mine, async () => {
    const news = await Promise.all(runs.map((run) => run.look()));
    if (mine !== view) return false;
    if (news.includes(true)) {
      redraw();
      readForMeans();
    }
    if (!one) {
      drawCompared();
      return runs.some((run) => run.more || !OVER.has(run.job.status));
    }
    const [run] = runs;
    drawJob(run.job);
    const log = await ask(about(run.id, `/log?after=${logged}`));
    if (mine !== view) return false;
    if (!$("config").textContent) {
      const { config } = await ask(about(run.id, "/config"));
      $("config").textContent = JSON.stringify(config, null, 2);
    }
    drawEvents(run.told.splice(0));
    if (log.text) $("log-text").append(log.text);
    const more = run.more || log.next > logged;
    logged = log.next;
    return more || !OVER.has(run.job.status);
  });
}

function drawJob(job) {
  const over = OVER.has(job.status);
  $("status").textContent = job.status;
  $("status").className = `status ${job.status}`;
  $("cancel").hidden = over;
  $("cancel").disabled = job.status === "cancelling";
  $("retry").hidden = !over;
  $("reason").hidden = !job.error;
  $("reason").textContent = job.error ?? "";
  $("reason").className = job.status === "failed" ? "reason failed" : "reason";
  const took = job.started_at ? Math.round((job.ended_at ?? Date.now() / 1000) - job.started_at) : null;
  drawFacts([
    ["Kind", kindOf(job)], ["Model", job.model], ["Name", job.name], ["Created", moment(job.created_at)],
    ["Took", took === null ? "" : `${Math.floor(took / 60)} min ${took % 60} s`], ["Fine-tuned model", job.fine_tuned_model],
    ["Training file", job.training_file], ["Task app", job.endpoint_base_url],
  ]);
}

// Each job in the colour of its curves; the links keep the focus.
function drawCompared() {
  const place = $("facts");
  runs.forEach(({ id, label, job }, number) => {
    const pair = place.children[number] ?? place.appendChild(element("div"));
    if (!pair.firstChild) {
      const name = pair.appendChild(element("dt", "", { className: "run" }));
      name.style.setProperty("--run", COLOURS[number % COLOURS.length]);
      name.append(element("a", label, { href: `#job=${encodeURIComponent(id)}`, title: id }));
      pair.append(element("dd"), element("dd", job.model));
    }
    pair.children[1].replaceChildren(element("span", job.status, { className: `status ${job.status}` }));
  });
}

function drawFacts(facts) {
  const there = facts.filter(([, value]) => value);
  $("facts").replaceChildren(...there.map(([name, value]) => {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    return pair;
  }));
}

function drawEvents(events) {
  const place = $("events");
  const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 30;
  for (const event of events) {
    const row = element("li", "", { className: event.level });
    row.append(element("time", clock(event.created_at)), element("span", event.message || event.type));
    place.append(row);
    if (event.type.endsWith(".sample")) drawSample(event.data);
  }
  while (place.children.length > MOST_EVENTS) place.firstChild.remove();
  if (atEnd) place.scrollTop = place.scrollHeight;
}

function drawSample(data) {
  const box = element("div", "", { className: "sample" });
  for (const [name, value] of Object.entries(data)) {
    const row = element("div");
    row.append(element("b", name), " ", typeof value === "string" ? value : JSON.stringify(value));
    box.append(row);
  }
  $("samples").prepend(box);
  $("samples-box").hidden = false;
}

// -- what one can do

async function act(button, deed) {
  button.disabled = true;
  try {
    await deed();
  } catch (error) {
    $("state").textContent = error.message;
  }
  button.disabled = false;
}

$("cancel").addEventListener("click", () => act($("cancel"), async () => {
  drawJob(await ask(about(runs[0].id, "/cancel"), "POST"));
}));

$("retry").addEventListener("click", () => act($("retry"), async () => {
  const family = kindOf(runs[0].job) === "RL" ? "rl" : "learning";
  const { config } = await ask(about(runs[0].id, "/config"));
  const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const job = await ask(`${family}/jobs`, "POST", config, { "Content-Type": "application/json", "Idempotency-Key": key });
  await ask(about(job.id, "/start"), "POST");
  location.hash = `job=${encodeURIComponent(job.id)}`;
}));

// A mean is of all values, and not of the lowest and the highest.
let reading = false;
async function readForMeans() {
  const thinned = runs.filter((run) => run.thinned);
  if (reading || !thinned.length || !Number($("smoothing").value)) return;
  reading = true;
  const mine = view;
  await Promise.all(thinned.map((run) => run.readAll())).catch(() => {}); // the next look says what is wrong
  reading = false;
  if (mine === view) redraw();
}

$("compare").addEventListener("click", () => {
  location.hash = `job=${[...chosen].map(encodeURIComponent).join(",")}`;
});
$("more").addEventListener("click", () => { limit = Math.min(PAGE, limit * 4); list(); });
$("plotly").addEventListener("load", redraw); // it is large: what needs no chart is shown and asked for meanwhile
$("smoothing").addEventListener("input", () => { redraw(); readForMeans(); });
$("log").addEventListener("change", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", $("key").value.trim());
  $("key").value = "";
  go();
});

function go() {
  const hash = new URLSearchParams(location.hash.slice(1));
  if (hash.has("key")) {
    sessionStorage.setItem("key", hash.get("key"));
    history.replaceState(null, "", location.pathname); // the key is not to stay in the address
    return go();
  }
  if (!sessionStorage.getItem("key")) return knock();
  const ids = (hash.get("job") ?? "").split(",").filter(Boolean);
  ids.length ? open(ids) : list();
}

addEventListener("hashchange", go);
go();
