/** The live part of the page: asks for /metrics and shows what it says. */

import { getText } from "./api.js";
import { GatewayPanels } from "./gateway_panels.js";
import { GroupPanels } from "./group_panels.js";
import { MetricsHistory } from "./metrics_history.js";
import { Poller } from "./poller.js";
import { parseMetrics } from "./prometheus_text.js";

/**
 * root: where the panels go. state: the line that says whether they are up to date. changed: called
 * with null when the server answers again, or with the error when it no longer does.
 */
export function showLive(root, state, changed) {
  const history = new MetricsHistory();
  let panels = [];
  let gone = false;

  async function turn() {
    let page;
    try {
      page = parseMetrics(await getText("metrics"));
    } catch (error) {
      if (!gone) changed(error);
      gone = true;
      state.textContent = "no news: the server does not answer";
      return;
    }
    if (gone) changed(null);
    gone = false;
    const now = performance.now() / 1000;
    history.push(page, now);
    if (panels.length === 0) {
      panels = panelsFor(history);
      root.replaceChildren(...panels.flatMap((panel) => panel.roots));
    }
    panels.forEach((panel) => panel.update(history, now));
    state.textContent = "once a second, the last minute";
  }

  new Poller(turn).start();
}

function panelsFor(history) {
  const gateway = history.has("trgateway_") ? [new GatewayPanels()] : [];
  return history.has("trserve_subserver_") ? [...gateway, new GroupPanels()] : gateway;
}
