"use strict";
// Buttons that choose one of several panels.
for (const button of document.querySelectorAll("button[data-panel]")) {
  button.addEventListener("click", () => {
    const choice = button.closest(".choice");
    for (const other of choice.querySelectorAll("button"))
      other.setAttribute("aria-pressed", String(other === button));
    for (const panel of choice.querySelectorAll(".panel"))
      panel.classList.toggle("other-panel", panel.id !== button.dataset.panel);
  });
}
// Tables sorted by the column whose heading is clicked; a second click turns the order round.
for (const head of document.querySelectorAll("table.sortable th")) {
  head.tabIndex = 0;
  const sort = () => {
    const table = head.closest("table");
    const column = head.cellIndex;
    const numbers = head.classList.contains("n") || table.tBodies[0].querySelector(
      `td:nth-child(${column + 1})[data-value]`) !== null;
    const before = head.getAttribute("aria-sort");
    const down = before === null ? numbers : before === "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      return numbers ? Number(cell.dataset.value ?? cell.textContent) : cell.textContent;
    };
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const order = numbers ? key(a) - key(b)
        : key(a).localeCompare(key(b), "en", { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
