// The table of all runs: sorted by a click on a column, filtered by words and conditions.
const MOST_ROWS = 200; // shown at once
const CHOICES = ["attack", "rule", "partition", "network"]; // NAME:key=value,...

/** A filter such as `median q>=2 status=done`: words are searched for, conditions compared. */
function parseFilter(text) {
  const tests = text.split(/\s+/).filter(Boolean).map((term) => {
    const found = term.match(/^(\w+)(>=|<=|!=|==|=|>|<)(.+)$/);
    if (!found) return (row) => row.words.includes(term.toLowerCase());
    const [, name, sign, wanted] = found, any = CHOICES.includes(name) && !wanted.includes(":"); // whatever the parameters are
    return (row) => {
      const value = row.values[name in row.values ? name : { T: "epochs", H: "local_steps" }[name] || name];
      if (value === undefined) return false;
      if (wanted.toLowerCase() === "nan" && typeof value !== "string") return sign === "!=" ? value !== null : sign.startsWith("=") && value === null;
      const text = any ? String(value).replace(/:[^+]*/g, "") : String(value), same = { true: "yes", false: "no", none: "none" }[wanted.toLowerCase()] || wanted;
      const [a, b] = typeof value === "number" && wanted !== "" && !Number.isNaN(Number(wanted)) ? [value, Number(wanted)] : [text, same];
      if (sign === "!=") return a !== b;
      if (sign === "=" || sign === "==") return a === b;
      if (typeof a === "string") return false;
      return sign === ">=" ? a >= b : sign === "<=" ? a <= b : sign === ">" ? a > b : a < b;
    };
  });
  return (row) => tests.every((test) => test(row));
}

function runDetail(run) {
  const symbols = Object.entries(run.symbols).map(([name, value]) => make("span", {}, make("span", { class: "soft" }, `${name} `), String(value ?? "–")));
  const sessions = run.sessions.map((session) => make("p", { class: "soft" }, Object.entries(session).map(([name, value]) => `${name} ${value}`).join(", ")));
  const panels = Object.entries(run.curves).map(([name, values]) => ({
    title: name.replace(/_/g, " "), xlabel: "Epochs", ylabel: "", log: false, logx: false, limits: [null, null], decay: null, dots: false, ownLegend: false,
    curves: [{ label: run.name, style: 2, remarks: [], repeats: 1, x: run.x, mean: values }],
  }));
  const box = make("div", { class: "inner" }, make("p", { class: "mono" }, run.folder), run.why ? make("p", {}, run.why) : null,
    make("div", { class: "symbols mono" }, ...symbols), ...sessions);
  if (run.x.length > 1) box.append(figureCard({ panels, columns: 2, title: "", note: "" }, "").querySelector(".panels"));
  return box;
}

function showRuns() {
  const { columns, metrics, rows } = DATA.runs;
  if (!rows.length) return;
  for (const row of rows) {
    row.values = { ...row.symbols, ...row.last, status: row.status, epoch: row.epoch, run: row.name };
    row.words = [row.name, row.folder, row.status, ...Object.entries(row.symbols).map(([name, value]) => `${name}=${value}`)].join(" ").toLowerCase();
  }
  const names = ["run", "status", "epoch", ...columns, ...metrics], numeric = new Set(["epoch", ...metrics]);
  for (const name of columns) if (rows.some((row) => typeof row.values[name] === "number")) numeric.add(name);
  let order = { name: null, up: true }, text = "", most = MOST_ROWS;
  const body = make("tbody"), heads = new Map(), count = make("span", { class: "soft" });
  const cellOf = (row, name) => {
    if (name === "status") return make("td", {}, make("span", { class: `chip ${row.status}` }, row.status));
    if (name === "epoch") return make("td", { class: "number" }, row.epochs ? `${row.epoch}/${row.epochs}` : String(row.epoch));
    const value = row.values[name];
    if (name === "run") return make("td", { title: row.name }, row.name);
    return make("td", { class: numeric.has(name) ? "number" : "" }, typeof value === "number" ? number(value) : value ?? "");
  };
  const show = () => {
    const chosen = rows.filter(parseFilter(text));
    if (order.name) {
      const sign = order.up ? 1 : -1, rank = (value) => (value === undefined || value === null ? 1 : 0);
      chosen.sort((one, two) => {
        const a = one.values[order.name], b = two.values[order.name];
        if (rank(a) || rank(b)) return rank(a) - rank(b);
        return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
      });
    }
    count.textContent = chosen.length === rows.length ? `${rows.length} runs` : `${chosen.length} of ${rows.length} runs`;
    body.replaceChildren(...chosen.slice(0, most).map((row) => {
      const line = make("tr", { class: "run", tabindex: "0", "aria-expanded": "false" }, ...names.map((name) => cellOf(row, name)));
      const toggle = () => {
        const open = line.getAttribute("aria-expanded") === "true";
        line.setAttribute("aria-expanded", String(!open));
        if (open) line.nextSibling.remove();
        else line.after(make("tr", { class: "detail" }, make("td", { colspan: names.length }, runDetail(row))));
      };
      line.addEventListener("click", toggle);
      line.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
      return line;
    }));
    if (chosen.length > most) {
      const more = make("button", { type: "button", onclick: () => { most = Infinity; show(); } }, `show all ${chosen.length}`);
      body.append(make("tr", {}, make("td", { colspan: names.length }, more)));
    }
    for (const [name, head] of heads) {
      head.setAttribute("aria-sort", order.name !== name ? "none" : order.up ? "ascending" : "descending");
      head.firstChild.textContent = name + (order.name !== name ? "" : order.up ? " ▲" : " ▼");
    }
  };
  for (const name of names) {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => { order = { name, up: order.name === name ? !order.up : true }; show(); });
    heads.set(name, make("th", { scope: "col", class: numeric.has(name) ? "number" : "" }, button));
  }
  const field = searchField("runs", "Filter: words, or conditions such as b=2 q>=2 status=done test_accuracy>0.4", (value) => { text = value; show(); });
  text = field.value;
  const table = make("table", { class: "runs" }, make("thead", {}, make("tr", {}, ...heads.values())), body);
  byId("runs").append(make("h2", {}, "All runs"), make("div", { class: "card" }, make("div", { class: "controls" }, field, count), make("div", { class: "wide" }, table)));
  show();
}
