"use strict";
// Sorts and filters the list, opens what a link leads to, copies commands. The page is
// whole without it.
(() => {
  const byId = (id) => document.getElementById(id);
  const copy = (button, text) => {
    const done = (said) => {
      button.textContent = said;
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    };
    if (!navigator.clipboard) {
      done("cannot copy here");
      return;
    }
    navigator.clipboard.writeText(text).then(() => done("copied"), () => done("cannot copy here"));
  };
  // One listener for all: there may be thousands of sections.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button, button.previousElementSibling.textContent);
  });
  const addButtons = (section) => {
    for (const command of section.querySelectorAll("pre.command")) {
      if (command.nextElementSibling && command.nextElementSibling.matches("button.copy")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      command.after(button);
    }
  };
  const sections = Array.from(document.querySelectorAll("details.section"));
  for (const section of sections) {
    if (section.open) addButtons(section);
  }
  document.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.matches("details.section")) addButtons(event.target);
  }, true);
  const open = (section) => {
    section.open = true;
    section.scrollIntoView();
    section.querySelector("summary").focus({ preventScroll: true });
  };

  const table = byId("races");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row, at) => ({
    row,
    section: sections[at],
    text: row.textContent.toLowerCase(),
  }));
  const words = byId("words");
  const choices = ["class", "verdict", "state"].map(byId).filter(Boolean);

  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ row, text }) =>
      choices.every((choice) => !choice.value || row.dataset[choice.id] === choice.value) &&
      wanted.every((word) =>
        word.length > 1 && word.startsWith("-") ? !text.includes(word.slice(1)) : text.includes(word));
    let shown = 0;
    for (const entry of rows) {
      const fit = fits(entry);
      shown += fit ? 1 : 0;
      if (entry.row.hidden === fit) {
        entry.row.hidden = !fit;
        entry.section.hidden = !fit;
      }
    }
    byId("shown").textContent = shown + " of " + rows.length;
  };

  const headings = Array.from(table.tHead.rows[0].cells);
  const sort = (column, descending) => {
    const numeric = headings[column].dataset.sort === "number";
    const key = (entry) => {
      const cell = entry.row.cells[column];
      const text = cell.dataset.key || cell.textContent;
      return numeric ? Number(text) : text.toLowerCase();
    };
    const keyed = rows.map((entry, at) => ({ entry, at, key: key(entry) }));
    const sign = descending ? -1 : 1;
    keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.at - b.at));
    body.append(...keyed.map(({ entry }) => entry.row));
    headings.forEach((heading, at) => {
      if (at === column) heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const sorted = heading.getAttribute("aria-sort");
      // What was seen most often is asked for first.
      const first = button.textContent === "Seen" ? "descending" : "ascending";
      sort(column, (sorted ? sorted === "ascending" : first === "descending"));
      remember();
    });
  });

  // The address says what is shown, so that a view can be passed on.
  const remember = () => {
    const state = new URLSearchParams();
    if (words.value) state.set("filter", words.value);
    for (const choice of choices) {
      if (choice.value) state.set(choice.id, choice.value);
    }
    const column = headings.findIndex((heading) => heading.hasAttribute("aria-sort"));
    if (column >= 0) {
      const down = headings[column].getAttribute("aria-sort") === "descending";
      state.set("sort", (down ? "-" : "") + headings[column].textContent.toLowerCase());
    }
    try {
      history.replaceState(null, "", "#" + state);
    } catch {
      // Some viewers forbid it, and nothing else depends on it.
    }
  };
  const recall = () => {
    const hash = location.hash.slice(1);
    const section = hash && byId(hash);
    if (section && section.matches("details.section")) {
      open(section);
      return;
    }
    if (!hash.includes("=")) return;
    const state = new URLSearchParams(hash);
    words.value = state.get("filter") || "";
    for (const choice of choices) choice.value = state.get(choice.id) || "";
    const order = state.get("sort") || "";
    const name = order.replace(/^-/, "");
    const column = headings.findIndex((heading) => heading.textContent.toLowerCase() === name);
    if (column >= 0) sort(column, order.startsWith("-"));
    filter();
  };

  let pending;
  const changed = () => {
    clearTimeout(pending);
    pending = setTimeout(() => { filter(); remember(); }, 60);
  };
  byId("filter").addEventListener("input", changed);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const visible = () => sections.filter((section) => !section.hidden);
    const step = (by) => {
      const all = visible();
      const at = all.findIndex((section) => section.contains(document.activeElement));
      const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
      if (next) open(next);
    };
    if (event.key === "/") words.focus();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "l") {
      byId("list").scrollIntoView();
      const first = body.querySelector("tr:not([hidden]) a");
      if (first) first.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  });
  window.addEventListener("hashchange", recall);
  byId("filter").hidden = false;
  filter();
  recall();
})();
