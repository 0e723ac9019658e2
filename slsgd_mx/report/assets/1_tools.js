// Small functions that the other files use. Text from files enters the page in three ways only:
// as text nodes (`make`), as attributes set by name, and, inside charts, through `plain`.
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** A new element; children are elements or texts. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Text for the plotting library, which would read tags and entities. */
const plain = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(4));
}

function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} seconds`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${(seconds / 3600).toFixed(1)} hours`;
}

/** Values that outlive a refresh of the page; without storage they are forgotten. */
const memory = {
  get(name) { try { return sessionStorage.getItem(`slsgd-mx ${name}`); } catch { return null; } },
  set(name, value) { try { sessionStorage.setItem(`slsgd-mx ${name}`, value); } catch { /* none */ } },
};

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A search field that keeps its text over refreshes; `apply` gets the text. */
function searchField(name, hint, apply) {
  const field = make("input", { type: "search", placeholder: hint, "aria-label": hint, id: `find-${name}` });
  field.value = memory.get(name) || "";
  field.addEventListener("input", () => { memory.set(name, field.value); apply(field.value); });
  return field;
}

const theme = {
  get dark() { return document.documentElement.dataset.theme === "dark"; },
  set(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").replaceChildren(dark ? "☀" : "☾", make("span", { class: "word" }, dark ? " light" : " dark"));
    redrawAll();
  },
  start() {
    const wanted = memory.get("theme");
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    this.set(wanted ? wanted === "dark" : system.matches);
    system.addEventListener("change", (event) => { if (!memory.get("theme")) this.set(event.matches); });
    byId("theme").addEventListener("click", () => {
      this.set(!this.dark);
      memory.set("theme", this.dark ? "dark" : "light");
    });
  },
};
const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
