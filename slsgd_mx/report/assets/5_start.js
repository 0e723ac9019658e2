// Build the page; draw charts when the plotting library, which comes last, is there.
function inkRules() {
  const rules = DATA.styles.flatMap((style, i) => ["light", "dark"].map((name) =>
    `:root[data-theme="${name}"] .ink-${i} { stroke: ${style[name]}; fill: ${style[name]}; }`));
  document.head.append(make("style", {}, rules.join("\n")));
}

/** With --watch: load the file again, when somebody looks at it, and return to the same place. */
function refreshLater() {
  if (!DATA.watch) return;
  const refresh = () => {
    if (document.visibilityState !== "visible") return;
    memory.set("scroll", String(window.scrollY));
    window.location.reload();
  };
  setTimeout(() => { refresh(); document.addEventListener("visibilitychange", refresh); }, 1000 * DATA.watch);
}

/** Paper is light, shows every chart, and cannot be clicked. */
function prepareForPrinting() {
  let dark = false, closed = [];
  window.addEventListener("beforeprint", () => {
    dark = theme.dark;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((entry) => { entry.open = true; });
    if (dark) theme.set(false);
    drawWaiting();
  });
  window.addEventListener("afterprint", () => {
    closed.forEach((entry) => { entry.open = false; });
    if (dark) theme.set(true);
  });
}

inkRules();
theme.start();
showProgress();
showSummary();
showClaims();
showFigures("figures", "Figures", DATA.figures);
showArena();
showFigures("theory", "Theorems and measurements", DATA.theory);
showRuns();
const NAMES = { summary: "Summary", claims: "Claims", figures: "Figures", arena: "Arena", theory: "Theory", ledger: "Paper vs code", runs: "Runs" };
document.querySelector("nav").append(...Object.entries(NAMES).filter(([id]) => byId(id).childElementCount)
  .map(([id, name]) => make("a", { href: `#${id}` }, name)));
prepareForPrinting();
document.addEventListener("DOMContentLoaded", () => {
  for (const place of states.keys()) { watcher.unobserve(place); watcher.observe(place); }
  const scroll = memory.get("scroll");
  if (scroll !== null && DATA.watch) window.scrollTo(0, Number(scroll));
  document.documentElement.dataset.ready = "yes";
  refreshLater();
});
