/** What this server is: a token-routed group, or a gateway in front of several servers. */

import { getJson, getText } from "./api.js";
import { parseMetrics } from "./prometheus_text.js";

const AUTO = "auto";

export class Server {
  constructor(cards, gateway, names) {
    this.cards = cards;
    this.gateway = gateway;
    this.names = names; // of the group's models; none for a gateway
  }

  get ids() {
    return this.cards.map((card) => card.id);
  }

  /** `tokenrouter` of an entry of /v1/models: its models, router and threshold. Null where it has none, as
   * behind a gateway all names that not only local groups with the same models may answer to. */
  group(id) {
    return this.cards.find((card) => card.id === id)?.tokenrouter ?? null;
  }

  /** Names of the models that may write for this id. */
  namesOf(id) {
    return this.group(id)?.models ?? this.names;
  }

  /** The place of a model among a gateway's, for its colour. */
  place(id) {
    return Math.max(0, this.concrete.indexOf(id));
  }

  /** A gateway's models without the one that stands for any. */
  get concrete() {
    return this.ids.filter((id) => id !== AUTO);
  }
}

/** Ask. Throws ApiError. */
export async function discover() {
  const { data } = await getJson("v1/models");
  const gateway = data.some((card) => card.id === AUTO) || (await isGateway());
  return new Server(data, gateway, gateway ? [] : await groupNames(data));
}

/** By its metrics, which need no key. */
async function isGateway() {
  try {
    return [...parseMetrics(await getText("metrics")).keys()].some((name) => name.startsWith("trgateway_"));
  } catch {
    return false;
  }
}

async function groupNames([card]) {
  if (card?.tokenrouter?.models) return card.tokenrouter.models;
  try {
    return (await getJson("health")).subservers.map((subserver) => subserver.name);
  } catch {
    return []; // the answers' usage names them
  }
}
