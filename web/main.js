// SPDX-License-Identifier: Apache-2.0
// The page: it signs in, follows the state and draws it.

import { Component, html, render } from "./preact.js";
import { Agents, Relays } from "./agents.js";
import { Device } from "./device.js";
import { Devices } from "./devices.js";
import { Gateway } from "./gateway.js";
import { Audit, Events } from "./records.js";
import { follow, Rates } from "./state.js";
import { signIn, signOut } from "./session.js";
import { counted } from "./words.js";

class Page extends Component {
  state = { network: undefined, lost: undefined, chosen: undefined, session: undefined, out: undefined };
  rates = new Rates();

  async componentDidMount() {
    try {
      const session = await signIn();
      if (session === null) return this.setState({ out: "This browser is not signed in." });
      this.setState({ session });
      await follow(
        (network) => this.setState({ network, lost: undefined }),
        (lost) => this.setState({ lost }),
      );
    } catch (error) {
      this.setState({ out: error.status === 401 ? "This browser's session has ended." : error.message });
    }
  }

  choose = (chosen) => this.setState({ chosen });

  leave = async () => {
    await signOut();
    this.setState({ out: "This browser is signed out." });
  };

  render(_, { network, lost, chosen, session, out }) {
    if (out !== undefined) return html`<${SignedOut} reason=${out} />`;
    if (network === undefined) return html`<main><p role="status">${lost ?? "Loading the state …"}</p></main>`;
    const mayOperate = session.access === "operate";
    const device = network.terminals[chosen];
    const problem = lost ? `Lost the controller: ${lost}. What you see is old; trying again.` : network.failure;
    return html`
      <header>
        <h1>bicast</h1>
        <p class=${problem ? "live lost" : "live"} role="status">${problem ?? "live"}</p>
        <p class="muted">
          ${counted(Object.keys(network.gateways).length, "gateway")},
          ${" " + counted(Object.keys(network.terminals).length, "device")}
        </p>
        <span class="muted">${mayOperate ? "" : "read only"}</span>
        <button class="quiet" onClick=${this.leave}>Sign out</button>
      </header>
      ${network.config.error && html`<p class="alarm" role="alert">Refused configuration, the last good one stays: ${network.config.error}</p>`}
      <main class=${device ? "with-device" : ""}>
        <div class="network">
          ${Object.entries(network.gateways)
            .filter(([name, each]) => !isFar(network, name, each))
            .map(
              ([name]) =>
                html`<${Gateway} key=${name} name=${name} network=${network} mayOperate=${mayOperate} rates=${this.rates} chosen=${chosen} choose=${this.choose} />`,
            )}
          <${Devices} network=${network} rates=${this.rates} chosen=${chosen} choose=${this.choose} />
          <${Relays} network=${network} mayOperate=${mayOperate} />
          <${Agents} network=${network} mayOperate=${mayOperate} />
          <${Events} network=${network} />
          <${Audit} />
        </div>
        ${device &&
        html`<${Device} key=${chosen} name=${chosen} device=${device} network=${network} mayOperate=${mayOperate} close=${() => this.choose(undefined)} />`}
      </main>
    `;
  }
}

// isFar tells a far site, which is drawn beside the gateway that it serves.
function isFar(network, name, gateway) {
  const peer = network.gateways[gateway.peer_site];
  if (peer === undefined) return false;
  const has = (site) => Object.values(network.terminals).some((each) => each.gateway === site);
  return !has(name) && has(gateway.peer_site);
}

function SignedOut({ reason }) {
  return html`<main class="signed-out">
    <h1>bicast</h1>
    <p>${reason}</p>
    <p>On the controller's machine, <code>./bicast page</code> prints a link that signs a browser in.</p>
  </main>`;
}

render(html`<${Page} />`, document.body);
