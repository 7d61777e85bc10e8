// SPDX-License-Identifier: Apache-2.0
// What happened, and who changed what: two lists, newest first.

import { Component, html } from "./preact.js";
import { open, request } from "./session.js";

const MOST_SHOWN = 100;

export class Events extends Component {
  state = { events: [], terminal: "", uplink: "" };

  componentDidMount() {
    this.ask();
  }

  componentDidUpdate(before) {
    if (before.network.last_event !== this.props.network.last_event) this.ask();
  }

  query() {
    const { terminal, uplink } = this.state;
    return { ...(terminal && { terminal }), ...(uplink && { uplink }) };
  }

  ask = async () => {
    try {
      this.setState({ events: await request("GET", ["events"], undefined, this.query()) });
    } catch {
      // The header says that the controller is lost.
    }
  };

  filter(name, value) {
    this.setState({ [name]: value }, this.ask);
  }

  save = async () => {
    const content = await (await open("GET", ["events.csv"], undefined, { query: this.query() })).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = "bicast-events.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };

  render({ network }, { events, terminal, uplink }) {
    const uplinks = new Set(Object.values(network.gateways).flatMap((each) => Object.keys(each.uplinks)));
    return html`<section aria-label="events">
      <h2>Events</h2>
      <div class="search">
        <${Choice} label="Device" value=${terminal} names=${Object.keys(network.terminals)} choose=${(value) => this.filter("terminal", value)} />
        <${Choice} label="Uplink" value=${uplink} names=${[...uplinks]} choose=${(value) => this.filter("uplink", value)} />
        <button onClick=${this.save}>Save as CSV</button>
      </div>
      <${List} label="list of events" none="Nothing has happened yet." entries=${events} line=${(each) => each.sentence} />
    </section>`;
  }
}

function Choice({ label, value, names, choose }) {
  return html`<label>
    ${label}${" "}
    <select value=${value} onChange=${(event) => choose(event.target.value)}>
      <option value="">all</option>
      ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </label>`;
}

// Audit asks when it is opened: few people look at it, and seldom.
export class Audit extends Component {
  state = { actions: [] };

  ask = async (event) => {
    if (!event.target.open) return;
    try {
      this.setState({ actions: await request("GET", ["audit"]) });
    } catch {
      // The header says that the controller is lost.
    }
  };

  render(_, { actions }) {
    const line = (each) => `${each.who}: ${each.said.join("; ") || `${each.request}, answered ${each.status}`}`;
    return html`<details onToggle=${this.ask}>
      <summary>Who changed what</summary>
      <${List} label="list of changes" none="Nobody has changed anything yet." entries=${actions} line=${line} />
    </details>`;
  }
}

function List({ label, none, entries, line }) {
  if (!entries.length) return html`<p class="muted">${none}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <ol class="events">
      ${entries.slice(0, MOST_SHOWN).map(
        (each) => html`<li key=${each.number}><time datetime=${new Date(each.at * 1000).toISOString()}>${clock(each.at)}</time> ${line(each)}</li>`,
      )}
    </ol>
  </div>`;
}

function clock(seconds) {
  const moment = new Date(seconds * 1000);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday ? moment.toLocaleTimeString() : moment.toLocaleString();
}
