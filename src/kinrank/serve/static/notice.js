// What went wrong, in words; and the form that asks for the token of the service.

import { Problem, setToken } from "./api.js";
import { byId } from "./draw.js";

export function notice(error) {
  if (error?.name === "AbortError") return;
  const box = byId("notice");
  const locked = error instanceof Problem && error.status === 401;
  const wrong = "This is not the token of the service, which was given when it was started.";
  if (locked) byId("login").hidden = false;
  box.hidden = !error || (locked && !byId("token").value); // at first it is only asked for
  box.textContent = error ? (locked ? wrong : error.message) : "";
}

export async function trying(work) {
  try {
    await work();
    notice(null);
  } catch (error) {
    notice(error);
  }
}

export function listenLogin(begin) {
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(byId("token").value);
    begin();
  });
}
