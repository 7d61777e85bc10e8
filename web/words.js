// SPDX-License-Identifier: Apache-2.0
// Figures and names as people read them.

const RATES = [
  [1e9, "Gbit/s"],
  [1e6, "Mbit/s"],
  [1e3, "kbit/s"],
];

export function rate(bps) {
  if (bps === undefined) return "";
  const [unit, name] = RATES.find(([least]) => bps >= least) ?? [1, "bit/s"];
  const figure = bps / unit;
  return `${figure < 10 && unit > 1 ? figure.toFixed(1) : Math.round(figure)} ${name}`;
}

export function megabytes(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

export const MODES = {
  auto: "copies while the active uplink is lossy or slow",
  bicast: "copies over every usable uplink",
  single: "everything over the active uplink",
  off: "each subnet over its own uplink",
};

export const ACTING = { bicast: "copies", single: "one path", off: "split by subnet" };

export const BY = { people: "set by a person", policies: "chosen by policies", default: "its default" };

// uplinkState judges an uplink by its port and by all terminals that use it: ok, lossy, dead or unknown.
export function uplinkState(uplink, name, terminals) {
  if (uplink.down !== undefined) return { state: "dead", reason: uplink.down };
  const paths = terminals.map((each) => each.paths?.[name]).filter((each) => each !== undefined);
  const dead = paths.filter((each) => each.health === "dead");
  const lossy = paths.filter((each) => each.health === "lossy");
  const good = paths.filter((each) => each.health === "good");
  if (dead.length && !good.length && !lossy.length) return { state: "dead", reason: dead[0].reason };
  if (dead.length || lossy.length) {
    const worst = dead[0] ?? lossy[0];
    const of = paths.length > 1 ? ` (${dead.length + lossy.length} of ${counted(paths.length, "device")})` : "";
    return { state: "lossy", reason: worst.reason + of };
  }
  if (uplink.troubles.length) return { state: "lossy", reason: uplink.troubles[0] };
  return good.length ? { state: "good", reason: good[0].reason } : { state: "unknown", reason: "no report yet" };
}
