"use strict";
// The experiment of a slot: parts of the traffic with intervals, guardrails, shadows, buttons, the audit log.
window.experimentUnit = null;

function rowsOf(head, rows) {
  const table = make("table"), first = make("tr");
  head.forEach((text) => first.append(make("th", { scope: "col" }, text)));
  table.append(first);
  rows.forEach((cells) => {
    const row = make("tr");
    cells.forEach((text) => row.append(make("td", {}, String(text))));
    table.append(row);
  });
  return table;
}

const between = (one) => number(one.low) + " to " + number(one.high);

function experimentButtons(base, found) {
  const wanted = { running: ["promote", "pause", "stop", "rollback"], paused: ["resume", "promote", "stop", "rollback"],
    stopped: ["rollback"], promoted: ["rollback"] }[found.status] || [];
  const line = make("p");
  wanted.filter((verb) => verb !== "promote" || "challenger" in found.journals).forEach((verb) => {
    const button = make("button", { type: "button" }, verb[0].toUpperCase() + verb.slice(1));
    button.onclick = attempt(async () => {
      const text = verb === "rollback"
        ? window.prompt("Return to a time (seconds since 1970) or the id of a decision; empty: the champion before", "")
        : window.prompt("Reason, for the audit log", "");
      if (text === null) return;
      const to = text.trim() === "" ? {} : { to: Number.isFinite(Number(text)) ? Number(text) : text.trim() };
      await call(base + "/experiment/" + verb, "POST", verb === "rollback" ? to : { reason: text });
      say(verb + ": done");
      await showSlots(); await showSlot();
    });
    line.append(button, " ");
  });
  return line;
}

async function showExperiment(slot) {
  const place = element("experiment"), base = "v1/slots/" + encodeURIComponent(slot);
  window.experimentUnit = null;
  if (place.dataset.slot !== slot) place.replaceChildren(make("p", { class: "small" }, "Reading ..."));
  place.dataset.slot = slot;
  let found;
  try { found = await call(base + "/experiment"); } catch (error) {
    const text = error.message.includes("unknown-experiment") ? "None: PUT /v1/slots/NAME/experiment starts one." : error.message;
    place.replaceChildren(make("p", { class: "small" }, text));
    return;
  }
  window.experimentUnit = found.spec.unit || "user";
  const seen = found.seen, parts = Object.entries(seen.parts), nodes = [];
  nodes.push(make("p", {}, `${found.status} since ${new Date(1000 * found.started).toLocaleString()}; divided by ${window.experimentUnit}`
    + `${found.spec.challenger ? ", ramp " + 100 * (found.spec.ramp || 0) + "%" : ""}`
    + `${found.spec.holdout ? ", hold-out " + 100 * found.spec.holdout.share + "%" : ""}.`
    + `${seen.recommended ? " Recommended: " + seen.recommended + " (" + seen.reason + ")." : ""}`));
  nodes.push(experimentButtons(base, found));
  nodes.push(rowsOf(["part", "decisions", "rewards", "mean", "band"],
    parts.map(([name, one]) => [name, one.decisions, one.rewards, number(one.mean), between(one)])));
  const more = Object.entries(seen.differences).map(([name, one]) => [name, number(one.estimate), between(one)])
    .concat(Object.entries(seen.shadows).map(([name, one]) => ["shadow " + name + " - champion", number(one.estimate),
      one.missing ? "needs " + one.missing : between(one)]));
  if (more.length) nodes.push(rowsOf(["difference", "estimate", "band"], more));
  const guards = Object.entries(seen.guardrails).flatMap(([name, one]) => Object.entries(one.parts)
    .map(([part, value]) => [name + ", " + part, number(value.mean), between(value), one.breached ? "breached" : "holds"]));
  if (guards.length) nodes.push(rowsOf(["guardrail", "mean", "band", ""], guards));
  nodes.push(make("p", { class: "small" }, `Bands: ${100 * seen.confidence}% for all times together, each by itself`
    + `${seen.asymptotic ? "; asymptotic, because reward_range is not given" : ""}.`));
  const changes = (await call(base + "/audit")).changes.slice(-10).reverse();
  nodes.push(rowsOf(["change", "time", "key", "reason"], changes.map((one) => [
    one.what, new Date(1000 * one.time).toLocaleString(), one.who, one.detail.reason || ""])));
  place.replaceChildren(...nodes);
}
