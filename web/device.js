// SPDX-License-Identifier: Apache-2.0
// One device: its mode and active uplink with their controls, its paths and caps, and why.

import { Component, html } from "./preact.js";
import { act, Said, undoable } from "./said.js";
import { request } from "./session.js";
import { BY, MODES, counted } from "./words.js";

const WHY_EVERY_MS = 2000;

export class Device extends Component {
  state = { said: undefined, why: [], isBusy: false };

  componentDidMount() {
    this.heading.focus();
    this.ask();
    this.timer = setInterval(this.ask, WHY_EVERY_MS);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  ask = async () => {
    try {
      this.setState({ why: await request("GET", ["terminals", this.props.name, "why"]) });
    } catch {
      // The header says that the controller is lost.
    }
  };

  async change(what, key, value, before) {
    this.setState({ isBusy: true });
    const said = await act("PUT", ["terminals", this.props.name, what], { [key]: value });
    this.setState({ said: undoable(said, () => this.change(what, key, before, value)), isBusy: false });
    this.ask();
  }

  setMode(mode) {
    const { device } = this.props;
    this.change("mode", "mode", mode, device.overridden ? device.mode : "file");
  }

  setUplink(uplink) {
    const { device } = this.props;
    this.change("active", "uplink", uplink, device.active_by === "people" ? device.active_uplink : "auto");
  }

  render({ name, device, network, mayOperate, close }, { said, why, isBusy }) {
    const uplinks = Object.keys(network.gateways[device.gateway].uplinks);
    const isAuto = device.active_by !== "people";
    const off = isBusy || !mayOperate;
    return html`<aside aria-label=${`device ${name}`} onKeyDown=${(event) => event.key === "Escape" && close()}>
      <button class="quiet close" onClick=${close}>Close</button>
      <h2 tabindex="-1" ref=${(heading) => (this.heading = heading)}>${name}</h2>
      <p class="muted">${[device.gateway, device.access_point, ...device.addresses].filter(Boolean).join(" · ")}</p>

      <fieldset disabled=${off}>
        <legend>Mode</legend>
        ${Object.entries(MODES).map(
          ([mode, meaning]) => html`<button key=${mode} aria-pressed=${device.mode === mode} title=${meaning} onClick=${() => this.setMode(mode)}>${mode}</button>`,
        )}
        <button disabled=${off || !device.overridden} title="as gateway.yaml says" onClick=${() => this.setMode("file")}>as configured</button>
        <p class="muted">${MODES[device.mode]}${device.overridden ? "; set by a person" : ""}</p>
      </fieldset>
      <fieldset disabled=${off}>
        <legend>Active uplink</legend>
        ${uplinks.map(
          (uplink) => html`<button key=${uplink} aria-pressed=${!isAuto && device.active_uplink === uplink} onClick=${() => this.setUplink(uplink)}>${uplink}</button>`,
        )}
        <button aria-pressed=${isAuto} title="policies choose" onClick=${() => this.setUplink("auto")}>auto</button>
        <p class="muted">${device.active_uplink}, ${BY[device.active_by]}</p>
      </fieldset>
      <${Said} said=${said} off=${off} />

      ${device.devices && html`<h3>Served here</h3>
        <ul>
          ${Object.entries(device.devices).map(([mac, each]) => html`<li key=${mac}>${each.name || "unnamed"} <span class="muted">${each.address} · ${mac}</span></li>`)}
        </ul>`}
      <h3>Paths</h3>
      <dl>
        ${Object.entries(device.paths).map(
          ([uplink, { health, reason }]) => html`<dt key=${uplink}>${uplink} <span class=${health}>${health}</span></dt><dd>${reason}</dd>`,
        )}
        ${device.cap && html`<dt>Window cap <span>${cap(device.cap)}</span></dt><dd>${device.cap.reason}</dd>`}
      </dl>
      <h3>Why</h3>
      ${why.map((each, index) => html`<p key=${index} class="why">${each}</p>`)}
    </aside>`;
  }
}

function cap({ most_segments: most, held, connections }) {
  if (most === undefined) return "none";
  return `${counted(most, "segment")} for ${counted(connections, "connection")}, ${held ? "held" : "not held"}`;
}
