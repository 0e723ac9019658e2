// Charts: one for each panel, drawn when it comes into view; one legend for each figure.
const drawn = new Set(); // charts that have been drawn
const touch = window.matchMedia("(pointer: coarse)").matches;

const colour = (style) => DATA.styles[style % DATA.styles.length][theme.dark ? "dark" : "light"];
const faint = (hex) => `${hex}26`;

function hoverText(curve, index) {
  if (curve.low && curve.low[index] !== null && curve.low[index] !== curve.high[index]) {
    const many = curve.repeats ? `${curve.repeats} repeats` : "repeats";
    return `mean of ${many}, ${number(curve.low[index])} to ${number(curve.high[index])}`;
  }
  return curve.repeats > 1 ? `${curve.repeats} repeats` : curve.repeats ? "one repeat" : "";
}

function tracesOf(panel, hidden) {
  const traces = [];
  for (const curve of panel.curves) {
    const look = DATA.styles[curve.style % DATA.styles.length], ink = colour(curve.style);
    const visible = !hidden.has(curve.label);
    const shared = { type: "scatter", x: curve.x, visible, showlegend: false, meta: curve.label };
    if (curve.high && !panel.dots) {
      const edge = { ...shared, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
      traces.push({ ...edge, y: curve.low, name: "low" });
      traces.push({ ...edge, y: curve.high, name: "high", fill: "tonexty", fillcolor: faint(ink) });
    }
    const bars = curve.high && panel.dots && {
      error_y: {
        type: "data", symmetric: false, color: ink, thickness: 1.2, width: 4,
        array: curve.high.map((high, i) => (high === null ? 0 : high - curve.mean[i])),
        arrayminus: curve.low.map((low, i) => (low === null ? 0 : curve.mean[i] - low)),
      },
    };
    traces.push({
      ...shared, ...bars, y: curve.mean, name: plain(curve.label), mode: "lines+markers",
      line: { color: ink, dash: look.dash, width: 2 },
      marker: { color: ink, symbol: look.symbol, size: 7, maxdisplayed: curve.x.length > 25 ? 9 : 0 },
      customdata: curve.x.map((_, i) => hoverText(curve, i)),
      hovertemplate: `<b>${plain(curve.label)}</b><br>${plain(panel.xlabel) || "x"} %{x}: <b>%{y:.4~g}</b>` +
        "<br>%{customdata}<extra></extra>",
    });
    if (curve.never) {
      traces.push({
        ...shared, x: curve.never, y: curve.never.map(() => panel.limits[1] * 0.97), mode: "markers",
        name: "beyond", marker: { color: ink, symbol: "triangle-up", size: 11 },
        hovertemplate: `<b>${plain(curve.label)}</b><br>%{x}: ${plain(curve.remarks.join("; "))}<extra></extra>`,
      });
    }
    if (curve.diverged) {
      traces.push({
        ...shared, x: curve.diverged.x, y: curve.diverged.y.map((y) => (y === null ? panel.limits[1] : y)),
        mode: "markers", name: "diverged", cliponaxis: false,
        marker: { color: ink, symbol: "x-thin", size: 11, line: { color: ink, width: 3 } },
        hovertemplate: `<b>${plain(curve.label)}</b><br>%{x}: a repeat diverged and stopped; its last accuracy stays,` +
          "<br>a loss that is not a number counts as infinite<extra></extra>",
      });
    }
  }
  return traces;
}

function axis(title, log, limits) {
  const ends = limits && limits.every((end) => end !== null) && (!log || limits[0] > 0);
  return {
    title: { text: plain(title), standoff: 8 }, type: log ? "log" : "linear", automargin: true,
    gridcolor: shade("--grid"), linecolor: shade("--line"), zeroline: false, exponentformat: "power",
    ...(ends ? { range: log ? limits.map(Math.log10) : limits } : { autorange: true }),
    ...(log ? { dtick: undefined, nticks: 8 } : {}),
  };
}

/** There is no epoch 2.5: a tick at each whole number where there are few. */
function steps(places) {
  const end = (choose) => places.reduce((one, two) => choose(one, two)); // there may be 100,000s: too many arguments
  const few = places.length && places.every(Number.isInteger) && end(Math.max) - end(Math.min) <= 12;
  return few ? { dtick: 1 } : {};
}

function layoutOf(state) {
  const { panel, log } = state, soft = shade("--soft");
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    margin: { l: 56, r: 12, t: touch ? 10 : 30, b: 44 }, font: { color: soft, size: 12, family: "system-ui, sans-serif" },
    dragmode: touch ? false : "zoom", showlegend: false, uirevision: `${log} ${state.full}`,
    hoverlabel: { bgcolor: shade("--card"), bordercolor: shade("--line"), font: { color: shade("--text") }, align: "left" },
    xaxis: { ...axis(panel.xlabel, panel.logx, null), ...(panel.logx ? {} : steps((panel.curves || []).flatMap((curve) => curve.x))) },
    yaxis: axis(panel.ylabel, log, state.full || log !== panel.log ? null : panel.limits),
    modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: shade("--accent") },
  };
  if (panel.decay !== null && panel.decay !== undefined) {
    layout.shapes = [{ type: "line", x0: panel.decay, x1: panel.decay, y0: 0, y1: 1, yref: "paper", line: { color: soft, width: 1, dash: "dot" } }];
    layout.annotations = [{ x: panel.decay, y: 1, yref: "paper", text: "α decays", showarrow: false, xanchor: "left", yanchor: "top", font: { size: 11 } }];
  }
  return layout;
}

const CONFIG = {
  responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover",
  // A list of our own: by default there may be a button that sends the chart to a web service.
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  showSendToCloud: false, showLink: false, doubleClick: "reset+autosize",
};

function draw(state) {
  if (!window.Plotly) return;
  const [traces, layout] = state.content ? state.content() : [tracesOf(state.panel, state.hidden), layoutOf(state)];
  Plotly.react(state.place, traces, layout, CONFIG);
  drawn.add(state);
}
const redraw = (states) => states.filter((state) => drawn.has(state)).forEach(draw);
function redrawAll() {
  for (const state of drawn) if (state.place.isConnected) draw(state); else drawn.delete(state);
}

const states = new Map(); // place -> state, of charts that are not drawn yet
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && window.Plotly && states.has(target)) {
      watcher.unobserve(target);
      draw(states.get(target));
      states.delete(target);
    }
  }
}, { rootMargin: "250px" });

function later(state) {
  states.set(state.place, state);
  watcher.observe(state.place);
}
function drawWaiting() {
  for (const state of states.values()) draw(state);
  states.clear();
}

/** A sample of a curve's line for the legend. */
function sample(style) {
  const space = "http://www.w3.org/2000/svg", picture = document.createElementNS(space, "svg");
  const line = document.createElementNS(space, "line"), dot = document.createElementNS(space, "circle");
  const look = DATA.styles[style % DATA.styles.length];
  for (const [name, value] of Object.entries({ width: 30, height: 10, "aria-hidden": "true" })) picture.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 5, y2: 5, "stroke-width": 2 })) line.setAttribute(name, value);
  if (look.dash !== "solid") line.setAttribute("stroke-dasharray", look.dash.replace(/px/g, ""));
  for (const [name, value] of Object.entries({ cx: 15, cy: 5, r: 3 })) dot.setAttribute(name, value);
  picture.append(line, dot);
  picture.classList.add(`ink-${style % DATA.styles.length}`);
  return picture;
}

/** Buttons that hide and show curves; a double click shows one curve alone, or all again. */
function legendOf(members, hidden) {
  const entries = new Map();
  for (const { panel } of members) {
    for (const curve of panel.curves) {
      if (!entries.has(curve.label)) entries.set(curve.label, { style: curve.style, remarks: new Set() });
      curve.remarks.forEach((remark) => entries.get(curve.label).remarks.add(remark));
    }
  }
  const buttons = new Map();
  const show = () => {
    for (const [label, button] of buttons) button.setAttribute("aria-pressed", String(!hidden.has(label)));
    redraw(members);
  };
  for (const [label, { style, remarks }] of entries) {
    const text = remarks.size ? `${label} (${[...remarks].join("; ")})` : label;
    const toggle = () => { if (!hidden.delete(label)) hidden.add(label); show(); };
    const alone = () => {
      const others = [...buttons.keys()].filter((other) => other !== label);
      const isAlone = others.every((other) => hidden.has(other)) && !hidden.has(label);
      hidden.clear();
      if (!isAlone) others.forEach((other) => hidden.add(other));
      show();
    };
    buttons.set(label, make("button", { type: "button", "aria-pressed": "true", onclick: toggle, ondblclick: alone }, sample(style), text));
  }
  return make("div", { class: "legend", title: "Click: hide or show. Double click: this curve alone." }, ...buttons.values());
}

/** A figure: its panels, legend and buttons. */
function figureCard(entry, identity) {
  const hidden = new Set();
  const members = entry.panels.map((panel) => ({
    panel, hidden, log: panel.log, full: false,
    place: make("div", { class: "chart", role: "img", "aria-label": panel.title }),
  }));
  const panels = members.map((state) => {
    const box = make("div", { class: "panel" }, make("h4", {}, state.panel.title), state.place);
    if (state.panel.ownLegend) box.append(legendOf([state], state.hidden = new Set()));
    return box;
  });
  const shared = members.filter((state) => !state.panel.ownLegend);
  const log = make("button", { type: "button", "aria-pressed": String(members.every((s) => s.log)) }, "log scale");
  log.addEventListener("click", () => {
    const on = log.getAttribute("aria-pressed") !== "true";
    log.setAttribute("aria-pressed", String(on));
    members.forEach((state) => { state.log = on; });
    redraw(members);
  });
  const all = make("button", { type: "button", "aria-pressed": "false", title: "Also what lies outside the panel" }, "whole range");
  all.addEventListener("click", () => {
    const on = all.getAttribute("aria-pressed") !== "true";
    all.setAttribute("aria-pressed", String(on));
    members.forEach((state) => { state.full = on; });
    redraw(members);
  });
  const csv = entry.csv === undefined ? null : make("button", { type: "button", class: "csv" }, "download CSV");
  if (csv) csv.addEventListener("click", () => download(`${entry.name}.csv`, DATA.files[entry.csv]));
  members.forEach(later);
  const grid = make("div", { class: "panels", style: `--columns: ${entry.panels.length === 1 ? 1 : Math.min(entry.columns, 2)}` }, ...panels);
  return make("article", { class: "card figure", id: identity },
    entry.title && make("h3", {}, entry.title), entry.note && make("p", { class: "soft" }, entry.note),
    make("div", { class: "controls" }, log, all, csv), grid, shared.length ? legendOf(shared, hidden) : null);
}
