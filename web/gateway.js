// SPDX-License-Identifier: Apache-2.0
// The picture of one gateway: its devices, its uplinks, the far site and relays, with traffic as width.
//
//     device ─── gateway ─── uplink ─── far site ─── internet
//
// A double line carries copies. A broken line is dead.

import { Component, html } from "./preact.js";
import { Budgets } from "./budgets.js";
import { FLOW_IDLE_MS } from "./state.js";
import { ACTING, counted, rate, uplinkState } from "./words.js";

const MOST_DRAWN = 10; // devices; beyond, one node for all with the same uplink and mode
const NODE = { width: 176, height: 46, gap: 14 };
const SHORTEST_LINE = 36; // pixels; if lines would be shorter, the picture runs from top to bottom

export class Gateway extends Component {
  state = { width: 900 };

  componentDidMount() {
    this.watch = new ResizeObserver(([entry]) => this.setState({ width: Math.round(entry.contentRect.width) }));
    this.watch.observe(this.frame);
  }

  componentWillUnmount() {
    this.watch.disconnect();
  }

  render({ name, network, rates, chosen, choose, mayOperate }, { width }) {
    const gateway = network.gateways[name];
    const layers = layersOf(name, network, rates);
    const { nodes, lines, height } = placed(layers, width);
    return html`<section class="gateway" ref=${(frame) => (this.frame = frame)} aria-label=${`gateway ${name}`}>
      <svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="group" aria-label=${`network of ${name}`}>
        ${lines.map((line) => html`<${Line} key=${line.key} ...${line} />`)}
        ${nodes.map((node) => html`<${Node} key=${node.key} ...${node} isChosen=${node.device !== undefined && node.device === chosen} choose=${choose} />`)}
      </svg>
      <${Budgets} gateway=${name} uplinks=${gateway.uplinks} mayOperate=${mayOperate} />
      ${gateway.conflicts.length > 0 &&
      html`<p class="alarm">Foreign flows block ours on ${name}: ${gateway.conflicts.join("; ")}</p>`}
    </section>`;
  }
}

function layersOf(name, network, rates) {
  const now = performance.now();
  const gateway = network.gateways[name];
  const devices = Object.entries(network.terminals).filter(([, each]) => each.gateway === name);
  const terminals = devices.map(([, each]) => each);
  const copies = terminals.some((each) => each.acting === "bicast");
  const up = gateway.state === "steady";
  const uplinks = Object.entries(gateway.uplinks).map(([uplink, each]) => {
    const judged = uplinkState(each, uplink, terminals);
    const out = rates.of(`${name}/${uplink} sent`, each.sent_bytes, now);
    const back = rates.of(`${name}/${uplink} received`, each.received_bytes, now);
    const active = terminals.filter((one) => one.active_uplink === uplink).length;
    return {
      key: `uplink ${uplink}`,
      title: uplink,
      text: out === undefined || back === undefined ? "" : `↑ ${rate(out)}  ↓ ${rate(back)}`,
      state: judged.state,
      reason: judged.reason,
      flow: { bps: (out ?? 0) + (back ?? 0), state: judged.state, copies, used: copies || active > 0 },
    };
  });
  const relays = Object.entries(network.relays).filter(([, each]) => each.gateways[name] !== undefined);
  const far = [
    ...(gateway.peer_site ? [farSite(network, gateway)] : []),
    ...relays.map(([relay, each]) => ({
      key: `relay ${relay}`,
      title: relay,
      text: each.draining ? "relay, draining" : `relay, ${counted(each.connections ?? 0, "connection")}`,
      state: each.down === undefined ? "good" : "dead",
      reason: each.down ?? "",
    })),
  ];
  return [
    drawnDevices(devices, rates, now),
    [{ key: "gateway", title: name, text: up ? "in sync" : gateway.state, state: up ? "good" : "dead", reason: gateway.last_error ?? "" }],
    uplinks,
    ...(far.length ? [far] : []),
    [{ key: "internet", title: "Internet", text: "", state: "good", reason: "" }],
  ];
}

function farSite(network, gateway) {
  const far = network.gateways[gateway.peer_site];
  const up = far?.state === "steady";
  const reason = gateway.passes_copies;
  const state = !up ? "dead" : reason === undefined ? "good" : "lossy";
  const text = !up ? (far?.state ?? "unknown") : reason === undefined ? "first copy passes" : "passes every copy";
  return { key: "far", title: gateway.peer_site, text, state, reason: reason ?? far?.last_error ?? "" };
}

function drawnDevices(devices, rates, now) {
  const bps = (name, each) =>
    (rates.of(`${name} sent`, each.sent_bytes, now, FLOW_IDLE_MS) ?? 0) +
    (rates.of(`${name} received`, each.received_bytes, now, FLOW_IDLE_MS) ?? 0);
  if (devices.length <= MOST_DRAWN)
    return devices.map(([name, each]) => {
      const { state, reason } = deviceState(each);
      const text = `${ACTING[each.acting]} · ${each.active_uplink}`;
      return { key: `device ${name}`, device: name, title: name, text, state, reason, flow: { bps: bps(name, each), state, used: true } };
    });
  const groups = Map.groupBy(devices, ([, each]) => `${ACTING[each.acting]} · ${each.active_uplink}`);
  return [...groups].map(([text, members]) => {
    const ill = members.filter(([, each]) => deviceState(each).state === "dead");
    const state = ill.length === members.length ? "dead" : ill.length ? "lossy" : "good";
    const whole = members.reduce((sum, [name, each]) => sum + bps(name, each), 0);
    const reason = ill.length ? `${ill.length} without a working path: ${ill.map(([name]) => name).join(", ")}` : "";
    return { key: `group ${text}`, title: counted(members.length, "device"), text, state, reason, flow: { bps: whole, state, used: true } };
  });
}

// deviceState judges a device by its active uplink, or by any of them while it sends copies.
export function deviceState(device) {
  const active = device.paths?.[device.active_uplink];
  const paths = device.acting === "bicast" ? Object.values(device.paths) : [active].filter(Boolean);
  if (!paths.length) return { state: "unknown", reason: "no report yet" };
  const best = paths.find((each) => each.health !== "dead") ?? paths[0];
  if (best.health === "dead") return { state: "dead", reason: best.reason };
  const state = device.acting === "bicast" ? "good" : best.health;
  return { state, reason: (active ?? best).reason };
}

// placed gives nodes and lines their coordinates: layers from left to right, or from top to bottom where it is narrow.
function placed(layers, width) {
  const isNarrow = width < layers.length * (NODE.width + SHORTEST_LINE) - SHORTEST_LINE;
  const across = Math.max(...layers.map((each) => each.length));
  const perRow = isNarrow ? Math.max(1, Math.floor(width / (NODE.width + NODE.gap))) : 1;
  const nodes = [];
  let height;
  if (isNarrow) {
    let top = 4;
    for (const layer of layers) {
      layer.forEach((node, index) => {
        const row = Math.floor(index / perRow);
        const inRow = Math.min(perRow, layer.length - row * perRow);
        const left = width / 2 + ((index % perRow) - inRow / 2) * (NODE.width + NODE.gap) + NODE.gap / 2;
        nodes.push({ ...node, x: left, y: top + row * (NODE.height + NODE.gap) });
      });
      top += Math.ceil(layer.length / perRow) * (NODE.height + NODE.gap) + 30;
    }
    height = top - 40;
  } else {
    height = across * (NODE.height + NODE.gap) + NODE.gap;
    const step = (width - NODE.width - 4) / (layers.length - 1);
    layers.forEach((layer, column) =>
      layer.forEach((node, index) => {
        const y = height / 2 + (index - layer.length / 2) * (NODE.height + NODE.gap) + NODE.gap / 2;
        nodes.push({ ...node, x: 2 + column * step, y });
      }),
    );
  }
  return { nodes, lines: linesOf(layers, new Map(nodes.map((each) => [each.key, each])), isNarrow), height };
}

function linesOf(layers, at, isNarrow) {
  const [devices, [gateway], uplinks, ...rest] = layers;
  const lines = devices.map((each) => line(at, each, gateway, each.flow, isNarrow));
  const [far, [internet]] = rest.length === 2 ? rest : [[], rest[0]];
  for (const uplink of uplinks) {
    lines.push(line(at, gateway, uplink, uplink.flow, isNarrow));
    const targets = far.length ? far : [internet];
    for (const target of targets) lines.push(line(at, uplink, target, uplink.flow, isNarrow));
  }
  for (const each of far) lines.push(line(at, each, internet, { bps: 0, state: each.state, used: true }, isNarrow));
  return lines;
}

function line(at, from, to, flow, isNarrow) {
  const [a, b] = [at.get(from.key), at.get(to.key)];
  const start = isNarrow ? [a.x + NODE.width / 2, a.y + NODE.height] : [a.x + NODE.width, a.y + NODE.height / 2];
  const end = isNarrow ? [b.x + NODE.width / 2, b.y] : [b.x, b.y + NODE.height / 2];
  const middle = isNarrow ? (start[1] + end[1]) / 2 : (start[0] + end[0]) / 2;
  const path = isNarrow
    ? `M${start} C${start[0]},${middle} ${end[0]},${middle} ${end}`
    : `M${start} C${middle},${start[1]} ${middle},${end[1]} ${end}`;
  return { key: `${from.key} ${to.key}`, path, ...flow };
}

// thickness grows by 2.5 pixels for each factor of ten above 10 kbit/s.
function thickness(bps) {
  return bps < 1e4 ? 1.5 : Math.min(14, 1.5 + 2.5 * Math.log10(bps / 1e4));
}

function Line({ path, bps, state, copies, used }) {
  const width = thickness(bps);
  const kind = `line ${state}${used ? "" : " unused"}`;
  if (!copies || state === "dead") return html`<path class=${kind} d=${path} stroke-width=${width} />`;
  return html`<g>
    <path class=${`${kind} copies`} d=${path} stroke-width=${width + 4} />
    <path class="between" d=${path} stroke-width=${Math.max(2, width / 3)} />
  </g>`;
}

const STATES = { good: "", unknown: "", lossy: "degraded", dead: "down" };

function Node({ x, y, title, text, state, reason, device, isChosen, choose }) {
  const label = [title, STATES[state], text, reason].filter(Boolean).join(" ");
  const act = device === undefined ? { role: "img", "aria-label": label } : {
    role: "button",
    tabindex: 0,
    "aria-pressed": isChosen,
    onClick: () => choose(device),
    onKeyDown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(device);
    },
  };
  return html`<g class=${`node ${state}${isChosen ? " chosen" : ""}`} transform=${`translate(${x} ${y})`} ...${act}>
    <title>${label}</title>
    <rect width=${NODE.width} height=${NODE.height} rx="8" />
    <text x="10" y="19" class="title">${fitted(title, STATES[state] ? 9 : 16)}</text>
    <text x=${NODE.width - 10} y="19" text-anchor="end" class="state">${STATES[state]}</text>
    <text x="10" y="36">${fitted(text, 27)}</text>
  </g>`;
}

function fitted(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
