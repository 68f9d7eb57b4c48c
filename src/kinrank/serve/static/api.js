// Asking the service: the token, problems in words, pictures that need the token.

let token = sessionStorage.getItem("kinrank-token");
const pictures = new Map();

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export function setToken(value) {
  token = value;
  sessionStorage.setItem("kinrank-token", value);
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service does not answer. Is it still running? What is shown is its " +
      "last answer.");
  }
  if (answer.ok) return answer;
  let detail = `The service answered ${answer.status}.`;
  try {
    detail = (await answer.json()).detail;
  } catch { /* somebody in between answered */ }
  throw new Problem(answer.status, detail);
}

export const get = async (path) => (await ask(path)).json();

export const download = async (path) => (await ask(path)).blob();

export const post = async (path, body, signal) =>
  (await ask(path, {
    method: "POST", body: JSON.stringify(body), signal,
    headers: { "Content-Type": "application/json" },
  })).json();

export const describe = async (file) =>
  (await ask("/v1/describe", {
    method: "POST", body: file, headers: { "Content-Type": file.type || "image/*" },
  })).json();

// Where the picture of a row is to be had: its address, or a copy where that needs the token.
export function pictureUrl(id, size = 160) {
  const path = `/v1/items/${encodeURIComponent(id)}/image?size=${size}`;
  if (!token) return Promise.resolve(path);
  if (!pictures.has(path)) {
    pictures.set(path, ask(path).then((answer) => answer.blob()).then(URL.createObjectURL));
  }
  return pictures.get(path);
}

export function picture(id, words, size = 160) {
  const image = document.createElement("img");
  image.alt = words;
  image.loading = "lazy";
  const none = () => image.replaceWith(missing(words));
  image.addEventListener("error", none);
  pictureUrl(id, size).then((url) => { image.src = url; }, none);
  return image;
}

function missing(words) {
  const span = document.createElement("span");
  span.className = "soft";
  span.textContent = "no picture";
  span.title = words;
  return span;
}
