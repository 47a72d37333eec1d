// Causes of slowness, in words.

import { amount, bytes, rate, seconds } from "./format.js";

/** Rates are those of this many states, which are a second apart. */
const STATES = 6;
/** Bytes a second from which on spilling, or reading the store, is a cause. */
const RATE_MIN = 1 << 20;
/** A query that has run for longer is slow where its SLA says nothing. */
const LONG_SECONDS = 10;
const SHOWN_MAX = 6;

/** Waits in words, with a time such as " for 3 s". */
const WAITS = {
  turn: (time) => `has waited${time} for its turn: its tenant runs as many queries as it may`,
  user: (time) => `a user has suspended it${time}; Resume lets it go on`,
  admission: (time) =>
    `has waited${time} for admission: memory has no room for the minimum of all queries`,
  priority_memory: (time) => `stopped${time}: a query of a higher priority needs its memory`,
  priority_time: (time) => `paused${time}: a query of a higher priority needs the processor`,
  time: (time) =>
    `paused${time}: the delay of the queries that run would cost more, by their SLAs`,
  memory: (time) => `an operator has waited${time} for memory that others hold`,
  lock: (time) => `has waited${time} for a lock of a table, which another transaction holds`,
  client: (time) => `has waited${time} for its client, which has yet to read more rows`,
};

const LABELS = {
  turn: "for its turn",
  user: "by a user",
  admission: "for admission",
  priority_memory: "memory of priority",
  priority_time: "time of priority",
  time: "for processor or disk",
  memory: "for memory",
  lock: "for a lock",
  client: "for its client",
};

/** A short name of what a query waits for. */
export const waitLabel = (query) => LABELS[query.wait] ?? query.wait;

/** The rates of queries over the last states. */
export class Rates {
  constructor() {
    this.states = [];
  }

  add(state) {
    const counters = new Map(state.queries.map((query) => [query.id, query]));
    this.states.push({ at: state.sample.at, counters });
    if (this.states.length > STATES) this.states.shift();
  }

  /** By how much a counter of a query grows a second. */
  of(id, counter) {
    const seen = this.states.filter((state) => state.counters.has(id));
    const [first, last] = [seen[0], seen[seen.length - 1]];
    if (seen.length < 2) return 0;
    const grown = last.counters.get(id)[counter] - first.counters.get(id)[counter];
    return grown / ((last.at - first.at) / 1000);
  }
}

const isLate = (query) => query.limit !== null && query.seconds > query.limit;

/** What a query spends its time with. */
export function cause(query, rates) {
  if (query.state === "cancelled") return "it is about to end";
  if (query.wait) {
    const time = query.waited === null || query.waited < 1 ? "" : ` for ${seconds(query.waited)}`;
    return WAITS[query.wait]?.(time) ?? query.wait;
  }
  const [spill, store] = [rates.of(query.id, "spilled"), rates.of(query.id, "store")];
  if (spill >= RATE_MIN && spill >= store) {
    const most = query.target === null ? "" : `, may hold ${bytes(query.target)}`;
    return `short of memory: spills ${rate(spill)}, holds ${bytes(query.held)}${most}`;
  }
  if (store >= RATE_MIN) return `tables are not in memory: reads ${rate(store)} from the store`;
  if (query.spilled > 0) return `computes; has spilled ${bytes(query.spilled)}`;
  return "computes";
}

function ofQuery(query, rates) {
  const isWaiting = query.wait && query.wait !== "client" && (query.waited ?? 0) >= 1;
  const isStuck = query.wait === "client" && (query.waited ?? 0) >= LONG_SECONDS;
  const isLong = query.limit === null && query.seconds >= LONG_SECONDS;
  if (!isLate(query) && !isWaiting && !isStuck && !isLong) return null;
  const kind = isLate(query) ? "bad" : query.wait ? "warn" : "";
  const late = isLate(query) ? `, ${seconds(query.seconds - query.limit)} over its SLA` : "";
  const label = isLate(query) ? "late" : query.wait ? "waits" : "long";
  return {
    kind,
    label,
    weight: (isLate(query) ? 1e9 * (1 + query.priority) : isWaiting ? 1e6 : 0) + query.seconds,
    subject: `Query ${query.id}${query.tenant ? ` of ${query.tenant}` : ""}`,
    text: `runs for ${seconds(query.seconds)}${late}`,
    why: cause(query, rates),
  };
}

function ofTenant(tenant) {
  if (!tenant.late) return null;
  const part = `${tenant.late} of ${tenant.recent} queries`;
  return {
    kind: "bad",
    label: "late",
    weight: 1e12 + (tenant.penalty ?? 0),
    subject: `Tenant ${tenant.name}`,
    text: `${part} over ${seconds(tenant.limit)} in ten minutes`,
    why: `95th percentile ${seconds(tenant.p95)}, penalty ${amount(tenant.penalty)}`,
  };
}

/** The causes of slowness, the worst first, and how many more there are. */
export function causes(state, rates) {
  const found = [
    ...state.tenants.map(ofTenant),
    ...state.queries.map((query) => ofQuery(query, rates)),
  ].filter((it) => it !== null);
  found.sort((one, other) => other.weight - one.weight);
  return { shown: found.slice(0, SHOWN_MAX), more: Math.max(0, found.length - SHOWN_MAX) };
}
