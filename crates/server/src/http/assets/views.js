// The parts of the page.

import { causes, waitLabel } from "./cause.js";
import { Chart, Colors } from "./chart.js";
import {
  amount, bar, bytes, clock, count, element, percent, rate, seconds, setText,
} from "./format.js";
import { Rows, twoLines } from "./rows.js";

const byId = (id) => document.getElementById(id);

const NOTICE_MS = 10_000;
const OTHERS = "others";
/** Colors of consumers; gray is that of the others. */
const PALETTE = [0, 1, 2, 3, 4, 6, 7];
const GRAY = 5;

/** Classes of consumers with their names and colors. */
const CLASSES = [
  ["pool", "pages of tables and operators", 0],
  ["query", "working memory of queries", 1],
  ["region", "regions", 2],
  ["heap", "heaps", 3],
  ["objects", "objects", 4],
  ["other", "other", GRAY],
];

export class Header {
  show(state) {
    setText(byId("version"), state.version);
    const health = byId("health");
    setText(health, state.failure === null ? "healthy" : "store failed");
    health.className = `pill ${state.failure === null ? "good" : "bad"}`;
    const text = Date.now() < told.until ? told.text : "";
    const failure = `The engine writes nothing more: ${state.failure}`;
    show(byId("notice"), state.failure === null ? text : failure);
    const waiting = state.queries.filter((query) => query.wait && query.wait !== "client").length;
    const reads = state.hits + state.misses;
    const held = Object.values(state.sample.classes).reduce((sum, it) => sum + it, 0);
    figures([
      ["Budget in use", `${bytes(held)} of ${bytes(state.budget)}`],
      ["Process resident", bytes(state.sample.resident)],
      ["Queries", `${state.running} run, ${waiting} of them wait`],
      ["Connections", `${state.connections.open} of ${state.connections.limit}`],
      ["Statements", `${count(state.statements)}, ${count(state.errors)} errors`],
      ["Page hits", reads === 0 ? "-" : percent(state.hits / reads)],
    ]);
  }
}

let told = { text: "", until: 0 };

/** Shows a message above everything for a while. */
export function notice(text) {
  told = { text, until: Date.now() + NOTICE_MS };
  show(byId("notice"), text);
}

function show(node, text) {
  setText(node, text);
  node.hidden = text === "";
}

function figures(items) {
  const list = byId("figures");
  if (list.children.length === 0) {
    list.append(...items.map(([name]) =>
      element("div", {}, element("dt", {}, name), element("dd"))));
  }
  items.forEach(([, value], index) => setText(list.children[index].lastChild, value));
}

export class Causes {
  show(state, rates) {
    const { shown, more } = causes(state, rates);
    const items = shown.map(({ kind, label, subject, text, why }) => element(
      "li", {}, element("span", { class: `pill ${kind}` }, label), element("b", {}, subject),
      element("span", {}, text), element("span", {}, `- ${why}`),
    ));
    if (more > 0) items.push(element("li", {}, element("small", {}, `and ${more} more`)));
    if (items.length === 0) {
      const text = "Nothing: no query waits, is over its SLA, or runs for long.";
      items.push(element("li", {}, element("span", { class: "pill good" }, "ok"), text));
    }
    byId("causes").replaceChildren(...items);
  }
}

export class Memory {
  constructor() {
    this.charts = new Map();
  }

  show(samples, state) {
    const times = samples.map((sample) => sample.at);
    state.tiers.forEach((tier, index) => {
      const heading = `${bytes(tier.used)} of ${bytes(tier.capacity)}`;
      const name = tier.kind === "store" ? `Store ${tier.name}` : tier.name;
      const chart = this.chart(tier.name, name === "dram" ? "DRAM" : name, bytes);
      if (index === 0) return this.dram(chart, samples, times, state.budget);
      const values = samples.map((sample) => sample.tiers[index] ?? 0);
      const series = [{ name: tier.kind === "store" ? "extents" : "pages", color: 2, values }];
      const isNear = tier.capacity < 4 * Math.max(...values, 1);
      return chart.show(times, series, { limit: isNear ? tier.capacity : null, heading });
    });
    if (samples.some((sample) => sample.store)) this.traffic(samples, times);
  }

  dram(chart, samples, times, budget) {
    const series = CLASSES.map(([key, name, color]) => ({
      name, color, values: samples.map((sample) => sample.classes[key] ?? 0),
    }));
    const used = series.filter(({ values }) => values.some((value) => value > 0));
    chart.show(times, used, { limit: budget, heading: `budget ${bytes(budget)}` });
  }

  traffic(samples, times) {
    const grown = (which) => samples.map((sample, index) => {
      const before = samples[index - 1];
      if (!before || !before.store || !sample.store) return 0;
      const passed = (sample.at - before.at) / 1000;
      return passed > 0 ? Math.max(0, sample.store[which] - before.store[which]) / passed : 0;
    });
    const series = [
      { name: "read", color: 7, values: grown(0) },
      { name: "written", color: 4, values: grown(1) },
    ];
    this.chart("traffic", "Traffic of the store", rate).show(times, series);
  }

  chart(key, title, format) {
    if (!this.charts.has(key)) {
      const chart = new Chart(title, format);
      byId("tier-charts").append(chart.node);
      this.charts.set(key, chart);
    }
    return this.charts.get(key);
  }
}

export class Market {
  constructor() {
    this.chart = new Chart("Holdings", bytes);
    byId("held-chart").append(this.chart.node);
    this.colors = new Colors(PALETTE.length);
    this.rows = new Rows(byId("market-rows"), byId("market-none"), (row) => row.name, consumerRow);
  }

  show(samples, state) {
    const { kind, trades, traded, consumers, last } = state.market;
    const sum = trades === 0 ? "no trades" : `${count(trades)} trades of ${bytes(traded)} in all`;
    setText(byId("market-kind"), `by ${kind}, ${sum}`);
    this.holdings(samples);
    const most = Math.max(...consumers.map((row) => Math.max(row.held, row.target ?? 0)), 1);
    const shown = [...consumers].sort((one, other) => other.held - one.held).slice(0, 12);
    this.rows.show(shown.map((row) => ({ ...row, most })));
    const items = last.slice(0, 6).map((trade) => element(
      "li", {}, element("time", {}, clock(trade.at)), element("b", {}, bytes(trade.bytes)),
      `${trade.from ?? "free memory"} to ${trade.to}`,
    ));
    byId("trades").replaceChildren(...items);
    byId("trades-none").hidden = items.length > 0;
  }

  holdings(samples) {
    const sums = new Map();
    for (const { held } of samples) {
      for (const [name, value] of Object.entries(held)) {
        if (name !== OTHERS) sums.set(name, (sums.get(name) ?? 0) + value);
      }
    }
    const names = [...sums.keys()].sort((one, other) => sums.get(other) - sums.get(one));
    const shown = names.slice(0, PALETTE.length);
    const colors = this.colors.of(shown).map((color) => PALETTE[color]);
    const series = shown.map((name, index) => ({
      name, color: colors[index], values: samples.map((sample) => sample.held[name] ?? 0),
    }));
    const rest = samples.map(({ held }) => Object.entries(held)
      .filter(([name]) => !shown.includes(name))
      .reduce((sum, [, value]) => sum + value, 0));
    const hasRest = rest.some((value) => value > 0);
    if (hasRest) series.push({ name: OTHERS, color: GRAY, values: rest });
    this.chart.show(samples.map((sample) => sample.at), series);
  }
}

function cell(label, kind, ...children) {
  return element("td", { class: kind, "data-label": label }, ...children);
}

function consumerRow(row) {
  const name = cell("Consumer", "wide");
  const setName = twoLines(name);
  const held = cell("Holds (bar) and target (mark)", "bytes wide");
  const [gain, loss] = [cell("Gain", "n"), cell("Loss", "n")];
  return {
    row: element("tr", {}, name, held, gain, loss),
    update(it) {
      const sla = it.sla ? `SLA ${it.sla}` : "";
      setName(it.name, [it.class === "query" ? it.tenant ?? "" : "", sla]
        .filter((text) => text !== "").join(", "));
      const target = it.target === null ? "no limit" : `target ${bytes(it.target)}`;
      held.replaceChildren(
        bar([[it.held, it.class === "cache" ? "f0" : "f1"]], it.most, it.target),
        `${bytes(it.held)}, ${target}`,
      );
      setText(gain, amount(it.gain));
      setText(loss, amount(it.loss));
    },
  };
}

export class Queries {
  constructor(act) {
    const make = (query) => queryRow(query, act);
    const key = (query) => query.id;
    this.rows = new Rows(byId("queries-rows"), byId("queries-none"), key, make);
  }

  show(state) {
    const { queries, running } = state;
    const left = running - queries.length;
    setText(byId("queries-count"), left > 0 ? `the oldest ${queries.length} of ${running}` : "");
    this.rows.show(queries.map((query) => ({ ...query, budget: state.budget })));
  }
}

function queryRow(query, act) {
  const number = cell("Query", "head wide");
  const code = element("code", { title: query.statement }, query.statement);
  const statement = cell("Statement", "statement wide", code);
  const [state, time] = [cell("State", "state half"), cell("Time", "n")];
  const [memory, read] = [cell("Memory", "bytes"), cell("Table data read", "bytes")];
  const spilled = cell("Spilled", "n");
  const [setNumber, setTime] = [twoLines(number), twoLines(time)];
  const pill = element("span", { class: "pill" });
  const wait = element("small");
  state.append(pill, wait);
  const button = (text, action, kind) => {
    const name = `${text} query ${query.id}`;
    const node = element("button", { type: "button", class: kind, "aria-label": name }, text);
    node.addEventListener("click", () => act(query.id, action));
    return node;
  };
  const [pause, go] = [button("Suspend", "suspend", ""), button("Resume", "resume", "")];
  const end = button("Cancel", "cancel", "danger");
  const actions = cell("", "actions wide", pause, go, end);
  return {
    row: element("tr", {}, number, statement, state, time, memory, read, spilled, actions),
    update(it) {
      setNumber(String(it.id), it.tenant ?? "");
      const kinds = { running: it.wait ? "warn" : "good", cancelled: "bad" };
      pill.className = `pill ${kinds[it.state] ?? "warn"}`;
      setText(pill, it.wait && it.state === "running" ? "waits" : it.state);
      const waited = it.waited === null || it.waited < 1 ? "" : ` for ${seconds(it.waited)}`;
      const progress = it.fraction === null ? "" : `scans ${percent(it.fraction)}`;
      setText(wait, it.wait ? `${waitLabel(it)}${waited}` : progress);
      const late = it.limit !== null && it.seconds > it.limit;
      setTime(seconds(it.seconds), it.limit === null ? "" : `SLA ${seconds(it.limit)}`,
        late ? "late" : "");
      const target = it.target === null ? "" : `target ${bytes(it.target)}`;
      memory.replaceChildren(
        bar([[it.held, "f1"]], it.budget, it.target), bytes(it.held), element("small", {}, target),
      );
      const sum = it.dram + it.remote + it.store;
      const where = sum === 0 ? "" : `${percent(it.dram / sum)} from DRAM`;
      read.replaceChildren(
        bar([[it.dram, "f0"], [it.remote, "f3"], [it.store, "f4"]], sum),
        bytes(sum), element("small", { title: readTitle(it) }, where),
      );
      setText(spilled, it.spilled === 0 ? "-" : bytes(it.spilled));
      const isStopped = it.state === "suspended" || it.state === "preempted";
      pause.hidden = it.state === "suspended";
      go.hidden = !isStopped;
      for (const node of [pause, go, end]) node.disabled = it.state === "cancelled";
    },
  };
}

const readTitle = (query) => `DRAM ${bytes(query.dram)}, slower memory ${bytes(query.remote)}, `
  + `store ${bytes(query.store)}`;

export class Tenants {
  constructor() {
    const key = (tenant) => tenant.name ?? "";
    this.rows = new Rows(byId("tenants-rows"), byId("tenants-none"), key, tenantRow);
  }

  show(state) {
    this.rows.show(state.tenants);
  }
}

function tenantRow() {
  const [name, sla] = [cell("Tenant", ""), cell("SLA", "half")];
  const numbers = ["Running", "Finished", "Median", "95th pct."].map((it) => cell(it, "n"));
  const [late, penalty] = [cell("Late", "bytes"), cell("Penalty", "n")];
  const [setName, setSla] = [twoLines(name), twoLines(sla)];
  const setRunning = twoLines(numbers[0]);
  return {
    row: element("tr", {}, name, sla, ...numbers, late, penalty),
    update(it) {
      const priority = it.priority ? `priority ${it.priority}` : "";
      setName(it.name ?? "(no tenant)", priority);
      setSla(it.sla ?? "none", it.limits ?? "");
      setRunning(count(it.running), it.queued ? `${count(it.queued)} in turn` : "");
      const isLate = it.limit !== null && it.limit !== undefined && it.p95 > it.limit;
      const texts = [count(it.recent), seconds(it.p50), seconds(it.p95)];
      texts.forEach((text, index) => setText(numbers[index + 1], text));
      numbers[3].className = isLate ? "n late" : "n";
      if (it.late === null || it.late === undefined) {
        late.replaceChildren("-");
      } else {
        const part = it.recent === 0 ? "" : ` (${percent(it.late / it.recent)})`;
        late.replaceChildren(bar([[it.late, "f4"]], it.recent), `${it.late}${part}`);
      }
      setText(penalty, amount(it.penalty));
      penalty.className = it.penalty > 0 ? "n late" : "n";
    },
  };
}
