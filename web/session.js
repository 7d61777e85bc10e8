// SPDX-License-Identifier: Apache-2.0
// The browser's session: a cookie that scripts cannot read, and a key that only this page sends.

const KEY = "bicast-key";
const SESSION = ["page", "session"];

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// signIn exchanges the code behind # for a session. It returns the session, or null: nobody is signed in here.
export async function signIn() {
  const code = location.hash.slice(1);
  if (code) {
    history.replaceState(null, "", location.pathname); // a code works once, and history is no place for it
    const { key, session } = await request("POST", SESSION, { code });
    localStorage.setItem(KEY, key);
    return session;
  }
  if (localStorage.getItem(KEY) === null) return null;
  try {
    return await request("GET", SESSION);
  } catch (error) {
    if (error.status !== 401) throw error;
    localStorage.removeItem(KEY);
    return null;
  }
}

export async function signOut() {
  await request("DELETE", SESSION);
  localStorage.removeItem(KEY);
}

// open sends a request and returns the response. It throws Refused with the controller's own words.
export async function open(method, path, body, { signal, query = {} } = {}) {
  const headers = { "X-Bicast-Key": localStorage.getItem(KEY) ?? "" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const url = `/api/v1/${path.map(encodeURIComponent).join("/")}?${new URLSearchParams(query)}`;
  const response = await fetch(url, { method, headers, body: JSON.stringify(body), signal, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `the controller answered ${response.status}`);
}

export async function request(method, path, body, query) {
  return (await open(method, path, body, { query })).json();
}
