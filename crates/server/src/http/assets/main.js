// The dashboard: one stream of events, which every view shows.

import { Rates } from "./cause.js";
import { Causes, Header, Market, Memory, Queries, Tenants, notice } from "./views.js";

const SAMPLES_MAX = 600;

let samples = [];
let rates = new Rates();
const header = new Header();
const slow = new Causes();
const memory = new Memory();
const market = new Market();
const queries = new Queries(act);
const tenants = new Tenants();

function show(state) {
  header.show(state);
  slow.show(state, rates);
  queries.show(state);
  tenants.show(state);
  memory.show(samples, state);
  market.show(samples, state);
}

function take(state) {
  samples.push(state.sample);
  if (samples.length > SAMPLES_MAX) samples.shift();
  rates.add(state);
  show(state);
}

/** Has the server suspend, resume or cancel a query. The next state shows what came of it. */
async function act(id, action) {
  const headers = { "X-Terrace-Request": "dashboard" };
  try {
    const response = await fetch(`/queries/${id}/${action}`, { method: "POST", headers });
    // A query that has ended meanwhile is no longer there.
    if (!response.ok && response.status !== 404) {
      const { error } = await response.json();
      notice(`Query ${id} could not be told to ${action}: ${error}`);
    }
  } catch (error) {
    notice(`Query ${id} could not be told to ${action}: ${error.message}`);
  }
}

function listen() {
  const source = new EventSource("/events");
  source.addEventListener("history", (event) => {
    const { samples: kept, state } = JSON.parse(event.data);
    samples = kept;
    rates = new Rates();
    take(state);
  });
  source.addEventListener("state", (event) => take(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    const health = document.getElementById("health");
    health.textContent = "not connected";
    health.className = "pill bad";
    // A refusal ends the source; a lost connection does not.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

listen();
