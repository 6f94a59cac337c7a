// Curves of one job or several, by plotly.

const GROUPS = [
  ["Loss", (name) => /loss/.test(name)],
  ["Reward", (name) => /reward/.test(name)],
  ["Learning rate", (name) => /learning_rate/.test(name)],
];
export const COLOURS = ["#1f77d0", "#e07b00", "#2a9d4a", "#c2334d", "#8a5cd1", "#00918a", "#a86b32", "#d04fa8"];
const DASHES = ["solid", "dot", "dash", "longdash", "dashdot"];
const MOST = 2000; // points of a curve that are drawn; more cannot be told apart

export class Charts {
  constructor(place) {
    this.place = place;
    this.plots = new Map();
    // A chart that comes, or goes, makes the others narrower or wider.
    this.sizes = new ResizeObserver((all) => {
      for (const { target } of all) if (target.isConnected && target.data) Plotly.Plots.resize(target);
    });
  }

  // runs: [{label, series: Map(name -> {steps, values})}]
  draw(runs, { smoothing, log }) {
    const names = [...new Set(runs.flatMap((run) => [...run.series.keys()]))].sort();
    const groups = GROUPS.map(([title, fits]) => [title, names.filter(fits)]);
    const others = names.filter((name) => !GROUPS.some(([, fits]) => fits(name)));
    for (const name of others) groups.push([name, [name]]);
    for (const [title, members] of groups) {
      if (members.length) this.#plot(title); // all of them first, so that each is drawn in the width that it will have
    }
    for (const [title, members] of groups) {
      if (members.length) this.#draw(title, members, runs, smoothing, log);
    }
    for (const [title, plot] of this.plots) {
      if (!groups.some(([other, members]) => other === title && members.length)) {
        this.sizes.unobserve(plot);
        Plotly.purge(plot);
        plot.closest("figure").remove();
        this.plots.delete(title);
      }
    }
  }

  #draw(title, names, runs, smoothing, log) {
    const style = getComputedStyle(document.documentElement);
    const [text, line] = ["--text", "--line"].map((name) => style.getPropertyValue(name).trim());
    const traces = [];
    let most = 0, last = 0, chosen = false;
    runs.forEach((run, number) => {
      names.forEach((name, member) => {
        const series = run.series.get(name);
        if (!series) return;
        most = Math.max(most, series.steps.length);
        last = Math.max(last, series.steps.at(-1));
        chosen ||= run.thinned;
        const { x, y } = thinned(series.steps, smoothed(series.values, smoothing));
        traces.push({
          x, y,
          name: runs.length === 1 ? name : names.length === 1 ? run.label : `${run.label} ${name}`,
          mode: x.length < 50 ? "lines+markers" : "lines",
          connectgaps: false,
          line: {
            color: COLOURS[(runs.length > 1 ? number : member) % COLOURS.length],
            dash: runs.length > 1 ? DASHES[member % DASHES.length] : "solid",
            width: 2,
          },
          marker: { size: 4 },
        });
      });
    });
    const plot = this.#plot(title);
    const note = plot.previousElementSibling;
    note.hidden = !chosen && most <= MOST;
    note.textContent = `of ${last.toLocaleString()} steps the lowest and highest of each stretch`;
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
    Plotly.react(plot, traces, {
      margin: { l: 44, r: 8, t: 8, b: 34 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, size: 12 },
      xaxis: { ...axis, title: { text: "step" }, ...(Math.max(...traces.map(({ x }) => x.at(-1))) < 10 ? { dtick: 1 } : {}) }, // there are no half steps
      yaxis: { ...axis, type: log ? "log" : "linear", exponentformat: "power" },
      showlegend: traces.length > 1,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
      hovermode: "x unified", hoverlabel: { bgcolor: style.getPropertyValue("--card").trim(), font: { color: text } },
      uirevision: title,
    }, { displayModeBar: false });
  }

  #plot(title) {
    if (!this.plots.has(title)) {
      const figure = document.createElement("figure");
      const caption = figure.appendChild(document.createElement("figcaption"));
      caption.textContent = title;
      figure.appendChild(document.createElement("p")).className = "note";
      const plot = figure.appendChild(document.createElement("div"));
      plot.className = "plot";
      this.place.append(figure);
      this.plots.set(title, plot);
      this.sizes.observe(plot);
    }
    return this.plots.get(title);
  }
}

// An exponential average that begins anew behind a gap.
function smoothed(values, weight) {
  if (!weight) return values;
  let mean = null;
  return values.map((value) => {
    if (value === null) return (mean = null);
    return (mean = mean === null ? value : weight * mean + (1 - weight) * value);
  });
}

// The first and the last value, and of each stretch the lowest, the highest and a gap.
function thinned(steps, values) {
  // Copies: plotly takes an array that it has seen for one that has not changed.
  if (steps.length <= MOST) return { x: steps.slice(), y: values.slice() };
  const x = [], y = [], size = Math.ceil((2 * steps.length) / MOST);
  for (let from = 0; from < steps.length; from += size) {
    const to = Math.min(from + size, steps.length);
    let low = -1, high = -1, gap = -1;
    const end = from === 0 ? 0 : to === steps.length ? to - 1 : -1;
    for (let at = from; at < to; at++) {
      if (values[at] === null) { gap = at; continue; }
      if (low < 0 || values[at] < values[low]) low = at;
      if (high < 0 || values[at] > values[high]) high = at;
    }
    for (const at of [...new Set([low, high, gap, end])].filter((at) => at >= 0).sort((a, b) => a - b)) {
      x.push(steps[at]);
      y.push(values[at]);
    }
  }
  return { x, y };
}
