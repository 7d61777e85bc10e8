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

export function Said({ said, children }) {
  return html`<div role="status">
    ${said?.done.map((each) => html`<p class="said">${each}</p>`)}
    ${said?.failed.map((each) => html`<p class="said alarm">${each}</p>`)}
    ${said && children}
  </div>`;
}
