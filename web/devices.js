// SPDX-License-Identifier: Apache-2.0
// The list of devices, with a search.

import { Component, html } from "./preact.js";
import { deviceState } from "./gateway.js";
import { FLOW_IDLE_MS } from "./state.js";
import { ACTING, BY, rate } from "./words.js";

export class Devices extends Component {
  state = { search: "" };

  render({ network, rates, chosen, choose }, { search }) {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const all = Object.entries(network.terminals);
    const shown = all.filter(([name, each]) => words.every((word) => text(name, each).includes(word)));
    const now = performance.now();
    return html`<section aria-label="devices">
      <h2>Devices</h2>
      <label class="search">
        Search
        <input type="search" placeholder="name, address, uplink, mode, dead …" value=${search} onInput=${(event) => this.setState({ search: event.target.value })} />
      </label>
      <p class="muted" role="status">${search && `${shown.length} of ${all.length}`}</p>
      <div class="scroll" tabindex="0" role="region" aria-label="list of devices">
        <table>
          <thead>
            <tr><th scope="col">Device</th><th scope="col">Mode</th><th scope="col">Active uplink</th><th scope="col">Sends</th><th scope="col">Receives</th><th scope="col">State</th></tr>
          </thead>
          <tbody>
            ${shown.map(([name, each]) => {
              const sends = rate(rates.of(`${name} sent`, each.sent_bytes, now, FLOW_IDLE_MS));
              const receives = rate(rates.of(`${name} received`, each.received_bytes, now, FLOW_IDLE_MS));
              return html`<${Row} key=${name} name=${name} device=${each} sends=${sends} receives=${receives} isChosen=${name === chosen} choose=${choose} />`;
            })}
          </tbody>
        </table>
      </div>
    </section>`;
  }
}

function text(name, device) {
  const { state } = deviceState(device);
  const words = [name, device.gateway, device.mode, ACTING[device.acting], device.active_uplink, device.access_point, state];
  const served = Object.entries(device.devices ?? {}).flatMap(([mac, each]) => [each.name, each.address, mac]);
  return [...words, ...device.addresses, ...served].join(" ").toLowerCase();
}

// A row is drawn again only when it changes: there may be hundreds.
class Row extends Component {
  shouldComponentUpdate(next) {
    return Object.keys(next).some((key) => next[key] !== this.props[key]);
  }

  render({ name, device, sends, receives, isChosen, choose }) {
    const { state, reason } = deviceState(device);
    const mode = device.mode === device.acting ? ACTING[device.acting] : `${device.mode}: ${ACTING[device.acting]}`;
    return html`<tr class=${isChosen ? "chosen" : ""}>
      <th scope="row"><button class="link" aria-pressed=${isChosen} onClick=${() => choose(name)}>${name}</button></th>
      <td>${mode}${device.overridden && html` <span class="muted">(set)</span>`}</td>
      <td title=${BY[device.active_by]}>${device.active_uplink}</td>
      <td class="figure">${sends}</td>
      <td class="figure">${receives}</td>
      <td class=${state} title=${reason}>${state}</td>
    </tr>`;
  }
}
