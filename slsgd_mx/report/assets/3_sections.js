// Summary, progress, claims, figures, arena and theory.
function showProgress() {
  const now = DATA.progress;
  if (!now) return;
  const share = now.epochs_total ? now.epochs / now.epochs_total : 0;
  const left = now.seconds_left === null ? "" : `; about ${duration(now.seconds_left)} left`;
  const words = !now.runs ? "Waiting for the first run." : now.unfinished
    ? `${now.epochs} of ${now.epochs_total} epochs, ${now.ended} of ${now.runs} runs ended, ${now.running.length} running${left}`
    : `All ${now.runs} runs have ended.`;
  byId("progress").append(make("div", { class: "card" }, make("b", {}, "Progress"),
    make("div", { class: "bar" }, make("i", { style: `width: ${(100 * share).toFixed(1)}%` })),
    make("div", { class: "soft" }, words, DATA.watch ? ` · this page refreshes itself every ${DATA.watch} s` : "")));
}

const plural = (count, word) => `${word}${count === 1 ? "" : "s"}`;

function showSummary() {
  const { about, epochs, seconds } = DATA.summary, tiles = [], states = {};
  const tile = (value, words) => tiles.push(make("div", { class: "tile" }, make("b", {}, String(value)), make("span", {}, words)));
  const runs = DATA.runs.rows.length;
  for (const { status } of DATA.runs.rows) states[status] = (states[status] || 0) + 1;
  const again = states["in CSV"] && DATA.figures.length > 1 ? " (once for each figure that shows it)" : "";
  if (runs) tile(runs, `${plural(runs, "run")}: ${Object.entries(states).map(([state, count]) => `${count} ${state}`).join(", ")}${again}`);
  if (epochs) tile(epochs.toLocaleString("en"), "epochs computed");
  if (seconds) tile(duration(seconds), "of training, all runs together");
  if (DATA.figures.length) tile(DATA.figures.length, plural(DATA.figures.length, "figure"));
  for (const { preset, claims } of DATA.claims) {
    const which = claims.length > 1 ? ` ${claims[0].id} to ${claims[claims.length - 1].id}` : "";
    tile(`${claims.filter((c) => c.verdict === "holds").length} of ${claims.length}`, `claims${which} hold (${preset})`);
  }
  if (DATA.theory.length) tile(DATA.theory.length, `${plural(DATA.theory.length, "picture")} of the theory`);
  if (DATA.arena.length) tile(DATA.arena.length, plural(DATA.arena.length, "arena board"));
  const facts = about.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]);
  byId("summary").append(make("h2", {}, "Summary"), ...DATA.problems.map((text) => make("p", { class: "notice" }, text)),
    make("div", { class: "tiles" }, ...tiles), make("div", { class: "card" }, make("dl", { class: "facts" }, ...facts)));
}

const CHIPS = { holds: "holds", "does not hold": "fails", "not decided": "open", "not computed": "open" };
const chip = (verdict) => make("span", { class: `chip ${CHIPS[verdict] || ""}` }, verdict);

function claimEntry(claim) {
  const checks = claim.checks.map((check) => make("li", {}, chip(check.verdict), make("span", {}, check.text)));
  return make("details", { class: "claim", "data-verdict": claim.verdict },
    make("summary", {}, make("b", {}, claim.id),
      make("span", {}, `${claim.text} `, make("span", { class: "soft" }, `(${claim.where})`),
        make("span", { class: "numbers" }, [claim.tally, claim.decisive].filter(Boolean).join("; "))),
      chip(claim.verdict)),
    make("div", { class: "body" }, make("p", {}, make("b", {}, "Rule: "), claim.rule),
      claim.changed ? make("p", { class: "soft" }, "Today's version of slsgd-mx words this rule differently; the verdict is by the rule above.") : null,
      claim.missing ? make("p", { class: "soft" }, claim.missing === 1 ? "1 run or table is missing." : `${claim.missing} runs or tables are missing.`) : null,
      make("ul", { class: "checks" }, ...checks)));
}

function showClaims() {
  if (!DATA.claims.length) return;
  const section = byId("claims"), every = [];
  section.append(make("h2", {}, "Do the paper's claims hold?"));
  let verdict = "", text = "";
  const apply = () => every.forEach(([entry, words]) => {
    entry.hidden = Boolean((verdict && entry.dataset.verdict !== verdict) || !words.includes(text.toLowerCase()));
  });
  const verdicts = DATA.claims.flatMap((group) => group.claims.map((claim) => claim.verdict));
  const buttons = ["", ...Object.keys(CHIPS)].map((name) => {
    const count = name ? verdicts.filter((each) => each === name).length : verdicts.length;
    const button = make("button", { type: "button", "aria-pressed": String(!name), "data-choice": name || "all" }, `${name || "all"} (${count})`);
    button.addEventListener("click", () => {
      verdict = name;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      apply();
    });
    return button;
  });
  const field = searchField("claims", "Filter claims by any word", (value) => { text = value; apply(); });
  section.append(make("div", { class: "controls" }, ...buttons, field));
  for (const group of DATA.claims) {
    const entries = group.claims.map((claim) => {
      const entry = claimEntry(claim);
      every.push([entry, entry.textContent.toLowerCase()]);
      return entry;
    });
    section.append(make("div", { class: "card" }, make("p", { class: "soft" }, `${group.source}. ${group.note}`), ...entries));
  }
  text = field.value;
  apply();
}

function showFigures(id, title, entries) {
  if (!entries.length) return;
  const sources = new Map();
  entries.forEach((entry, i) => {
    if (!sources.has(entry.source)) sources.set(entry.source, make("div", { class: "jump" }, make("span", { class: "soft" }, entry.source)));
    sources.get(entry.source).append(make("a", { href: `#${id}-${i}`, title: entry.title }, entry.name));
  });
  byId(id).append(make("h2", {}, title), ...sources.values(),
    ...entries.map((entry, i) => figureCard(entry, `${id}-${i}`)));
}

/** How much of each push the rule used: slots over epochs, with crosses on poisoned ones. */
function pushesChart(pushes) {
  const slots = pushes.used[0].map((_, slot) => slot);
  const place = make("div", { class: "chart", role: "img", "aria-label": "Which pushes were kept" });
  const words = slots.map((slot) => pushes.epochs.map((epoch, t) =>
    `epoch ${epoch}, slot ${slot}, device ${pushes.devices[t][slot]}${pushes.poisoned[t].includes(slot) ? ", poisoned" : ""}`));
  const bad = pushes.epochs.flatMap((epoch, t) => pushes.poisoned[t].map((slot) => [epoch, slot]));
  const content = () => [[
    { type: "heatmap", x: pushes.epochs, y: slots, z: slots.map((slot) => pushes.used.map((row) => row[slot])), text: words,
      zmin: 0, zmax: 1, xgap: 1, ygap: 1, colorscale: [[0, theme.dark ? "#232a36" : "#eef0f4"], [1, theme.dark ? "#9E9AC8" : "#4A1486"]],
      colorbar: { thickness: 10, tickformat: ".0%", outlinewidth: 0 }, hovertemplate: "%{text}: %{z:.0%} used<extra></extra>" },
    { type: "scatter", mode: "markers", x: bad.map((p) => p[0]), y: bad.map((p) => p[1]), hoverinfo: "skip", showlegend: false,
      marker: { symbol: "x", color: theme.dark ? "#FF8A3D" : "#D55E00", size: 8, line: { color: shade("--card"), width: 1 } } },
  ], { ...layoutOf({ panel: { xlabel: "Epochs", ylabel: "Slot", logx: false, log: false, limits: null }, log: false, full: false }), margin: { l: 48, r: 4, t: touch ? 10 : 30, b: 44 }, yaxis: { ...axis("Slot", false, null), ...steps(slots) }, xaxis: { ...axis("Epochs", false, null), ...steps(pushes.epochs) } }];
  later({ place, content });
  return make("div", { class: "panel" }, make("h4", {}, `Share of each push that the rule used (seed ${pushes.seed}; × poisoned)`), place);
}

const SHARE_WORDS = { poisoned_used: "share of a poisoned push that the rule used", honest_lost: "share of an honest push that it did not use", attack_success: "success of the attack" };

function cellDetail(cell) {
  const { attack_success: success, ...shares } = cell.numbers;
  const numbers = Object.entries(shares).map(([name, value]) => `${SHARE_WORDS[name] || name}: ${number(value)}`);
  const box = make("div", { class: "cell" }, make("h3", {}, cell.title));
  if (cell.why) {
    box.append(make("p", {}, `This cell is empty: ${cell.why}`));
    return box;
  }
  if (numbers.length) box.append(make("p", { class: "soft" }, `Last half of the epochs: ${numbers.join("; ")}.`));
  if (success !== undefined) box.append(make("p", { class: "soft" }, `Last evaluation: ${SHARE_WORDS.attack_success}: ${number(success)}.`));
  const card = figureCard({ ...cell, title: "", note: "" }, "");
  const panels = card.querySelector(".panels");
  if (cell.pushes && cell.pushes.used.length) panels.append(pushesChart(cell.pushes));
  else box.append(make("p", { class: "soft" }, cell.pushes ? "The share of each push that the rule used is not recorded for this rule."
    : "Which pushes were kept is not recorded, or recorded in run folders that were not given (--runs)."));
  panels.removeAttribute("style");
  box.append(panels, card.querySelector(".legend"));
  return box;
}

function boardCard(board) {
  const detail = make("div", {}), buttons = [], kinds = { final: `final ${board.metric}`, pushes: "poisoned pushes used" };
  const table = make("table", { class: "heat" });
  let kind = "final", chosen = null;
  const fill = () => {
    buttons.length = 0;
    const worst = kind === "final" ? ["worst"] : [];
    const head = make("tr", {}, make("td"), ...[...board.columns, ...worst].map((name) => make("th", { scope: "col" }, name)));
    const rows = board.rules.map((rule, i) => make("tr", {}, make("th", { scope: "row" }, rule), ...board.maps[kind][i].map((look, j) => {
      const style = look.colour ? `background: ${look.colour}; color: ${look.light ? "#fff" : "#1c2330"}` : null;
      if (j >= board.columns.length) return make("td", {}, make("div", { class: `worst ${look.framed ? "framed" : ""}`, style }, look.text));
      const button = make("button", { type: "button", style, "aria-pressed": String(chosen === `${i} ${j}`), "data-cell": `${rule}/${board.columns[j]}` }, look.text || "–");
      button.addEventListener("click", () => {
        chosen = `${i} ${j}`;
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        detail.replaceChildren(cellDetail(board.cells[i][j]));
      });
      buttons.push(button);
      return make("td", {}, button);
    })));
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  };
  fill();
  const choices = Object.entries(kinds).map(([name, words]) => {
    const button = make("button", { type: "button", "aria-pressed": String(name === kind) }, words);
    button.addEventListener("click", () => {
      kind = name;
      choices.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      fill();
    });
    return button;
  });
  return make("article", { class: "card board" }, make("h3", {}, board.title), make("p", { class: "soft" }, board.source),
    make("div", { class: "controls" }, ...choices), make("div", { class: "wide" }, table),
    make("p", { class: "soft" }, "Click a cell for its curves and the pushes that were kept. Dark: broken. The orange frame marks the best worst case."),
    board.words.length ? make("details", {}, make("summary", {}, board.words[0]), make("ul", {}, ...board.words.slice(1).map((line) => make("li", {}, line)))) : null, detail);
}

function showArena() {
  if (DATA.arena.length) byId("arena").append(make("h2", {}, "Rules against attacks"), ...DATA.arena.map(boardCard));
}
