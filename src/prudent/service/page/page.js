"use strict";
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a63d2", "#7a7a7a"];
const element = (id) => document.getElementById(id);
let current = decodeURIComponent(location.hash.slice(1)) || null;

function say(text, error = false) {
  element("message").textContent = text;
  element("message").className = error ? "error" : "";
}

async function call(path, method = "GET", body = undefined) {
  const headers = {};
  const key = sessionStorage.getItem("prudent-key");
  if (key) headers.authorization = "Bearer " + key;
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const found = await answer.json();
  if (found.code === "missing-key") throw new Error("Give a key above: read to look, decide to decide, admin to change.");
  if (!answer.ok) throw new Error(found.detail + " (" + found.code + ")");
  return found;
}

function make(tag, attributes = {}, text = "") {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

function attempt(work) {
  return async (event) => {
    if (event) event.preventDefault();
    try { await work(); } catch (error) { say(error.message, true); }
  };
}

const showSlots = attempt(async () => {
  const found = (await call("v1/slots")).slots;
  const list = element("slots");
  list.replaceChildren(...found.map((slot) => {
    const button = make("button", { type: "button", "aria-current": String(slot.slot === current) },
      slot.slot + (slot.state === "active" ? "" : " (" + slot.state + ")"));
    button.onclick = () => {
      current = slot.slot;
      history.replaceState(null, "", "#" + encodeURIComponent(current));
      showSlots(); showSlot(true);
    };
    const item = make("li");
    item.append(button);
    return item;
  }));
  if (!found.length) list.append(make("li", { class: "small" }, "There are no slots yet: PUT /v1/slots/NAME makes one."));
  say(found.length + (found.length === 1 ? " slot" : " slots"));
});

const number = (value) => (value === null || value === undefined ? "–" : Number(value).toPrecision(3));

function chart(place, label, times, curves, low, high) {
  const width = Math.max(300, Math.min(720, place.clientWidth || 720)), height = 220, left = 56, bottom = 24, right = 8, top = 8;
  const space = "http://www.w3.org/2000/svg";
  const draw = (tag, attributes, text) => {
    const node = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const first = times[0], last = times[times.length - 1];
  const x = (t) => left + (width - left - right) * (last > first ? (t - first) / (last - first) : 0.5);
  const y = (v) => height - bottom - (height - bottom - top) * (high > low ? (v - low) / (high - low) : 0.5);
  for (let i = 0; i <= 4; i++) {
    const value = low + (high - low) * i / 4;
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "axis" }));
    svg.append(draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  const clock = (t) => new Date(1000 * t).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
  svg.append(draw("text", { x: left, y: height - 6 }, clock(first)));
  svg.append(draw("text", { x: width - right, y: height - 6, "text-anchor": "end" }, clock(last)));
  curves.forEach((curve) => {
    const points = (values) => values.map((v, i) => (v === null ? null : [x(times[i]), y(v)])).filter(Boolean);
    if (curve.low && curve.low.length) {
      const band = points(curve.low).concat(points(curve.high).reverse());
      svg.append(draw("polygon", { points: band.join(" "), fill: curve.colour, "fill-opacity": 0.05 }));
      [curve.low, curve.high].forEach((edge) => svg.append(draw("polyline", { points: points(edge).join(" "),
        fill: "none", stroke: curve.colour, "stroke-width": 1, "stroke-dasharray": "4 3" })));
    }
    const line = points(curve.values);
    svg.append(draw("polyline", { points: line.join(" "), fill: "none", stroke: curve.colour, "stroke-width": 2 }));
  });
  place.replaceChildren(svg);
}

function showCurves(found) {
  const arms = Object.entries(found.arms).map(([arm, curve], i) => ({ arm, colour: COLOURS[i % COLOURS.length], ...curve }));
  const shares = element("shares"), means = element("means");
  const table = element("arms");
  table.replaceChildren();
  shares.replaceChildren(); means.replaceChildren();
  if (!found.decisions) { shares.append(make("p", { class: "small" }, "No decisions in the last 24 hours.")); return; }
  chart(shares, "Share of decisions by arm over time", found.times, arms.map((a) => ({ values: a.share, colour: a.colour })), 0, 1);
  const all = arms.flatMap((a) => [...a.mean, ...a.low, ...a.high]).filter((v) => v !== null);
  if (all.length) {
    chart(means, "Mean reward by arm over time, with bands", found.times,
      arms.map((a) => ({ values: a.mean, low: a.low, high: a.high, colour: a.colour })), Math.min(...all), Math.max(...all));
  }
  const head = make("tr");
  ["arm", "decisions", "rewards", "mean", "band"].forEach((text) => head.append(make("th", { scope: "col" }, text)));
  table.append(head);
  const end = (values) => (values.length ? values[values.length - 1] : null);
  arms.forEach((a) => {
    const row = make("tr"), name = make("td");
    const key = make("span", { class: "key" });
    key.style.background = a.colour;
    name.append(key, a.arm);
    row.append(name);
    [a.decisions, a.rewards, number(end(a.mean)), number(end(a.low)) + " to " + number(end(a.high))]
      .forEach((text) => row.append(make("td", {}, String(text))));
    table.append(row);
  });
  element("bands").textContent = "Bands: " + 100 * found.confidence + "% for all times together"
    + (found.bounds_assumed ? ", if rewards stay between the lowest and highest seen here." : ".");
}

async function showSlot(focus = false) {
  await attempt(async () => {
    const slot = await call("v1/slots/" + encodeURIComponent(current));
    element("slot").hidden = false;
    element("name").textContent = slot.slot;
    if (focus) element("name").focus();
    showButtons(slot);
    if (slot.state === "archived") { element("facts").textContent = "archived"; return; }
    const context = element("context");
    if (focus) {
      const names = slot.spec.features;
      context.value = names ? JSON.stringify(Object.fromEntries(names.map((name) => [name, 0])))
        : JSON.stringify(new Array(slot.spec.dim || 0).fill(0));
    }
    const base = "v1/slots/" + encodeURIComponent(current);
    const [found, check] = await Promise.all([call(base + "/summary"), call(base + "/check")]);
    const delay = found.delay_seconds;
    element("facts").textContent = `${slot.state}; last 24 hours: ${found.decisions} decisions`
      + `${found.truncated ? " (the first ones only)" : ""}, ${found.rewards} rewards, ${found.pending} pending`
      + (found.pending ? ` (oldest ${number(found.oldest_pending_seconds)} s)` : "")
      + (delay ? `; rewards come after ${number(delay.p50)} s (median), ${number(delay.p99)} s (99%)` : "") + ".";
    showCurves(found);
    element("findings").replaceChildren(...(check.findings.length
      ? check.findings.map((one) => make("li", {}, one.kind + ": " + one.text))
      : [make("li", { class: "small" }, "None after " + check.rewards + " rewards.")]));
    await showExperiment(current);
  })();
}

function showButtons(slot) {
  const wanted = { active: ["pause", "archive"], paused: ["restore", "archive"], archived: ["restore"] }[slot.state];
  element("buttons").replaceChildren(...wanted.map((verb) => {
    const button = make("button", { type: "button" }, verb[0].toUpperCase() + verb.slice(1));
    button.onclick = attempt(async () => {
      await call("v1/slots/" + encodeURIComponent(slot.slot) + "/" + verb, "POST");
      await showSlots(); await showSlot();
    });
    return button;
  }));
}

element("login").onsubmit = attempt(async () => {
  sessionStorage.setItem("prudent-key", element("key").value);
  element("key").value = "";
  await showSlots();
  if (current) await showSlot(true);
});
element("decide").onsubmit = attempt(async () => {
  const began = performance.now();
  const context = JSON.parse(element("context").value);
  const found = await call("v1/slots/" + encodeURIComponent(current) + "/decide", "POST",
    { context, note: { from: "page", [window.experimentUnit || "user"]: "page" } });
  element("decision").hidden = false;
  element("decision").textContent = `arm ${found.arm}, propensity ${number(found.propensity)}, id ${found.id}`
    + `, ${(performance.now() - began).toFixed(1)} ms`;
  element("id").value = found.id || "";
});
element("explain").onsubmit = attempt(async () => {
  const found = await call("v1/slots/" + encodeURIComponent(current) + "/explain/" + encodeURIComponent(element("id").value));
  element("why").hidden = false;
  element("why").textContent = found.text;
});
if (location.hash.length > 1) current = decodeURIComponent(location.hash.slice(1));
showSlots();
if (current) showSlot(true);
