/** One live panel: a heading, a chart, what its colours mean, and the same numbers as a table. */

import { element } from "./element.js";

export class Panel {
  /** hint: one sentence on what is to be seen. size: "double" or "wide" for more than one column. */
  constructor(title, hint, size = "single") {
    this.title = title;
    this.body = element("div", { class: "panel-body" });
    this.legend = element("ul", { class: "legend small" });
    this.table = element("table", {});
    this.details = element("details", { class: "as-table" }, element("summary", {}, "As a table"), this.table);
    this.root = element(
      "section", { class: `card panel ${size}`, "aria-label": title },
      element("h3", {}, title), element("p", { class: "hint" }, hint), this.body, this.legend, this.details,
    );
  }

  /** Draw charts. styles: a map of each name in the legend to the number of its line's style. */
  draw(charts, styles, rows) {
    this.body.replaceChildren(...charts);
    this.legend.replaceChildren(
      ...[...styles].map(([name, style]) => element("li", {}, element("span", { class: `swatch line-${style % 6}` }), name)),
    );
    fillTable(this.table, this.title, rows);
    this.details.hidden = false;
  }

  /** Say why there is nothing to draw. */
  empty(text) {
    this.body.replaceChildren(element("p", { class: "empty" }, text));
    this.legend.replaceChildren();
    this.details.hidden = true;
  }
}

/** rows: the first has the columns' names, the first cell of the others is the row's. */
export function fillTable(table, caption, [head, ...rows]) {
  const cells = (row) => row.map((cell, i) => element(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}, cell));
  table.replaceChildren(
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, cell)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
  );
}
