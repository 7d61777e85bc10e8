// SPDX-License-Identifier: Apache-2.0
// The controller's state: the whole at first, then merge patches (RFC 7396), over one stream that heals itself.

import { open } from "./session.js";

const SILENT_MS = 12000; // the controller sends something every 5 s
const PORT_IDLE_MS = 3000; // ports are counted every second
export const FLOW_IDLE_MS = 25000; // flows are read every ten seconds where no decision needs them
const RETRY_MS = [500, 1000, 2000, 5000];

// follow calls onState with each new state and onLost with a sentence while the stream is away. It throws when the
// session has ended.
export async function follow(onState, onLost) {
  for (let failures = 0; ; failures++) {
    try {
      for await (const state of states()) {
        failures = 0;
        onState(state);
      }
      throw new Error("the controller ended the connection");
    } catch (error) {
      if (error.status === 401) throw error;
      onLost(error.status === undefined ? "no answer from the controller" : error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
  }
}

async function* states() {
  const cut = new AbortController();
  let silence;
  const wait = () => {
    clearTimeout(silence);
    silence = setTimeout(() => cut.abort(), SILENT_MS);
  };
  wait();
  try {
    const response = await open("GET", ["page", "stream"], undefined, { signal: cut.signal });
    let state;
    for await (const { name, data } of events(response.body, wait)) {
      state = name === "whole" ? data : merged(state, data);
      yield state;
    }
  } finally {
    clearTimeout(silence);
    cut.abort();
  }
}

async function* events(body, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
      if (fields.event) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}

// merged returns the patched value. What a patch does not name stays the same object.
export function merged(value, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  const result = value !== null && typeof value === "object" && !Array.isArray(value) ? { ...value } : {};
  for (const [key, inner] of Object.entries(patch)) {
    if (inner === null) delete result[key];
    else result[key] = merged(result[key], inner);
  }
  return result;
}

// Rates turns byte counters into bits per second: the mean over the time between two readings. A counter that stays the
// same for idleMs counts nothing.
export class Rates {
  #seen = new Map();

  of(key, bytes, now, idleMs = PORT_IDLE_MS) {
    if (bytes === undefined) return undefined;
    const seen = this.#seen.get(key) ?? { bytes, at: now, bps: undefined };
    this.#seen.set(key, seen);
    if (bytes !== seen.bytes) {
      const bps = bytes > seen.bytes && now > seen.at ? ((bytes - seen.bytes) * 8000) / (now - seen.at) : 0;
      Object.assign(seen, { bytes, at: now, bps });
    } else if (now - seen.at > idleMs) seen.bps = 0;
    return seen.bps;
  }
}
