// SPDX-License-Identifier: Apache-2.0
// What metered uplinks have used of their budgets.

import { Component, html } from "./preact.js";
import { act, Said, undoable } from "./said.js";
import { megabytes } from "./words.js";

export class Budgets extends Component {
  state = { said: undefined };

  async reset(uplink) {
    const used = this.used(uplink);
    const said = await act("DELETE", this.place(uplink));
    this.setState({ said: undoable(said, () => this.restore(uplink, used)) });
  }

  // restore counts what was used before the reset together with what has been used since.
  async restore(uplink, used) {
    this.setState({ said: await act("PUT", this.place(uplink), { bytes: used + this.used(uplink) }) });
  }

  place = (uplink) => ["gateways", this.props.gateway, "uplinks", uplink, "used"];
  used = (uplink) => this.props.uplinks[uplink].budget?.used_bytes ?? 0;

  render({ uplinks, mayOperate }, { said }) {
    const metered = Object.entries(uplinks).filter(([, each]) => each.budget !== undefined);
    if (!metered.length) return null;
    return html`<ul class="plain" aria-label="budgets">
        ${metered.map(
          ([uplink, { budget }]) => html`<li key=${uplink}>
            <strong>${uplink}</strong>: ${used(budget)}${budget.nearly && html`, <span class="lossy">nearly used up</span>`}
            ${budget.barred && html`, <span class="lossy">copies stopped: ${budget.barred}</span>`}
            ${mayOperate && html` <button aria-label=${`Reset the budget of ${uplink}`} onClick=${() => this.reset(uplink)}>Reset</button>`}
          </li>`,
        )}
      </ul>
      <${Said} said=${said} />`;
  }
}

function used({ used_bytes: bytes, budget_bytes: most, period, share, max_share: mostShare }) {
  const used = `${megabytes(bytes)}${most === undefined ? "" : ` of ${megabytes(most)}`} this ${period}`;
  return mostShare === undefined ? used : `${used}, copies ${Math.round(share * 100)} % of ${Math.round(mostShare * 100)} % of the traffic`;
}
