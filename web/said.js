// SPDX-License-Identifier: Apache-2.0
// An action and the controller's words about it.

import { html } from "./preact.js";
import { request } from "./session.js";

// act sends a request and returns what the controller said. It never throws.
export async function act(method, path, body) {
  try {
    const answer = await request(method, path, body);
    return { done: [], failed: [], ...answer };
  } catch (error) {
    return { done: [], failed: [error.message] };
  }
}

// undoable adds the action behind an Undo button, if something was done.
export function undoable(said, undo, undoing = "Undo") {
  return said.done.length ? { ...said, undo, undoing } : said;
}

export function Said({ said, off }) {
  return html`<div role="status">
    ${said?.done.map((each) => html`<p class="said">${each}</p>`)}
    ${said?.failed.map((each) => html`<p class="said alarm">${each}</p>`)}
    ${said?.undo && html`<button disabled=${off} onClick=${said.undo}>${said.undoing}</button>`}
  </div>`;
}
