// SPDX-License-Identifier: Apache-2.0
// Agents and relays: their state, enrolment and revocation, draining.

import { Component, html } from "./preact.js";
import { act, Said, undoable } from "./said.js";
import { request } from "./session.js";
import { counted } from "./words.js";

export class Agents extends Component {
  state = { name: "", said: undefined, invited: undefined };

  submit = (event) => {
    event.preventDefault();
    this.enrol(this.state.name, {});
  };

  async enrol(name, asked) {
    const answer = await act("POST", ["agents", name, "token"], asked);
    if (answer.token === undefined) return this.setState({ said: answer, invited: undefined });
    const said = { done: [`${name} may join once.`], failed: [] };
    this.setState({ said: undoable(said, () => this.withdraw(name)), invited: answer });
  }

  async withdraw(name) {
    this.setState({ said: await act("DELETE", ["agents", name, "token"]), invited: undefined });
  }

  // A revoked certificate stays revoked, so the way back is a new one, for the same role.
  async revoke(name) {
    if (!confirm(`Revoke the agent ${name}? It must be enrolled again to return.`)) return;
    const known = (await request("GET", ["agents"]).catch(() => [])).find((each) => each.name === name);
    const said = await act("DELETE", ["agents", name]);
    const again = () => this.enrol(name, { role: known?.role, terminal: known?.terminal });
    this.setState({ said: undoable(said, again, "Enrol again"), invited: undefined });
  }

  render({ network, mayOperate }, { name, said, invited }) {
    const agents = Object.entries(network.agents);
    return html`<section aria-label="agents">
      <h2>Agents</h2>
      ${!agents.length && html`<p class="muted">No agent has connected.</p>`}
      <ul class="plain">
        ${agents.map(
          ([agent, each]) => html`<li key=${agent}>
            <strong>${agent}</strong> ${each.role}, <span class=${each.state === "here" ? "good" : "dead"}>${each.state}</span>
            ${mayOperate && html` <button onClick=${() => this.revoke(agent)} aria-label=${`Revoke ${agent}`}>Revoke</button>`}
            ${each.missing.map((reason) => html`<div class="muted">${reason}</div>`)}
          </li>`,
        )}
      </ul>
      ${mayOperate &&
      html`<form class="search" onSubmit=${this.submit}>
        <label>Enrol <input required placeholder="name of an agent" value=${name} onInput=${(event) => this.setState({ name: event.target.value })} /></label>
        <button>Make a token</button>
      </form>`}
      <${Said} said=${said} />
      ${invited &&
      html`<p>Run this on ${invited.name} once, until ${new Date(invited.until * 1000).toLocaleTimeString()}:</p>
        <pre tabindex="0">${invited.line}</pre>
        ${invited.line.includes(" ADDRESS:") && html`<p class="muted">ADDRESS is an address of the controller that ${invited.name} can reach.</p>`}
        <${Code} rows=${invited.qr} />`}
    </section>`;
  }
}

const MODULE = 4; // pixels; a fraction would make modules of different sizes, which scanners misread

// Code draws a QR code; it is dark on light in any colour scheme, as scanners expect.
function Code({ rows }) {
  const size = rows.length * MODULE;
  const modules = rows.flatMap((row, y) => [...row].map((module, x) => (module === "1" ? `M${x},${y}h1v1h-1z` : "")));
  return html`<svg class="code" width=${size} height=${size} viewBox=${`0 0 ${rows.length} ${rows.length}`} role="img" aria-label="the same line as a QR code">
    <rect width=${rows.length} height=${rows.length} />
    <path d=${modules.join("")} />
  </svg>`;
}

export class Relays extends Component {
  state = { said: undefined };

  async drain(name, draining) {
    const said = await act("PUT", ["relays", name, "draining"], { draining });
    this.setState({ said: undoable(said, () => this.drain(name, !draining)) });
  }

  render({ network, mayOperate }, { said }) {
    const relays = Object.entries(network.relays);
    if (!relays.length) return null;
    return html`<section aria-label="relays">
      <h2>Relays</h2>
      <ul class="plain">
        ${relays.map(
          ([name, each]) => html`<li key=${name}>
            <strong>${name}</strong> ${each.address}, <span class=${each.down ? "dead" : "good"}>${each.down ?? (each.draining ? "draining" : "up")}</span>,
            ${" " + counted(each.connections ?? 0, "connection")}
            ${mayOperate && html` <button onClick=${() => this.drain(name, !each.draining)}>${each.draining ? "Resume" : "Drain"}</button>`}
          </li>`,
        )}
      </ul>
      <${Said} said=${said} />
    </section>`;
  }
}
