"use strict";
// Data from the daemon is inserted as text, never as markup, because names and reasons come from other users.

const EVERY_MS = 2000;
const TONE = {
  PASS: "good", FAIL: "bad", ERROR: "bad", INCONCLUSIVE: "warn",
  idle: "good", quarantined: "bad", unreachable: "warn", draining: "warn",
};
let older = [];
let after = "";

function cell(...children) {
  const td = document.createElement("td");
  td.append(...children);
  return td;
}

function span(text, tone) {
  const span = document.createElement("span");
  if (tone) span.className = tone;
  span.textContent = text;
  return span;
}

function named(text) {
  const td = cell(text);
  td.className = "name";
  return td;
}

function link(run) {
  const a = document.createElement("a");
  a.href = "runs/" + encodeURIComponent(run);
  a.textContent = run;
  return a;
}

function fill(id, rows, columns, none) {
  const body = document.getElementById(id);
  if (rows.length === 0) {
    const td = cell(none);
    td.colSpan = columns;
    td.className = "none";
    rows = [[td]];
  }
  body.replaceChildren(...rows.map((cells) => {
    const tr = document.createElement("tr");
    tr.append(...cells);
    return tr;
  }));
}

// Formats seconds since 1970 as an RFC 3339 time in the browser's time zone.
function time(seconds) {
  if (seconds === null) return "";
  const at = new Date(seconds * 1000);
  const zone = -at.getTimezoneOffset();
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const offset = `${zone < 0 ? "-" : "+"}${two(Math.abs(zone) / 60)}:${two(Math.abs(zone) % 60)}`;
  return new Date((seconds + zone * 60) * 1000).toISOString().slice(0, 19) + offset;
}

function took(run) {
  if (run.started === null) return "";
  const seconds = (run.ended ?? Math.floor(Date.now() / 1000)) - run.started;
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}

function rigRow(rig) {
  const state = [span(rig.state, TONE[rig.state])];
  if (rig.reason) state.push(span(rig.reason, "note"));
  for (const area of rig.pending) state.push(span("to be restored: " + area, "note"));
  const name = rig.host ? `${rig.name} (${rig.host})` : rig.name;
  return [named(name), cell(...state), cell(rig.device || rig.kind), cell(rig.holder), named(rig.run), cell(rig.waiting ? String(rig.waiting) : "")];
}

function leaseRow(lease) {
  const waits = lease.place === null ? "" : `place ${lease.place}`;
  const why = (lease.because ?? []).map((because) => span(because, "note"));
  return [named(lease.rig), cell(lease.state), cell(lease.owner), cell(time(lease.until)), cell(waits, ...why)];
}

function runRow(run) {
  const ended = run.state === "ended";
  const outcome = ended ? run.outcome : run.state;
  const state = [span(outcome, TONE[outcome])];
  if (run.place) state.push(span(`place ${run.place}`, "note"));
  if (run.reason) state.push(span(run.reason, "note"));
  const counts = Object.entries(run.counts).map(([of, count]) => `${count} ${of}`).join(", ");
  const id = ended ? cell(link(run.id)) : cell(run.id);
  id.className = "name";
  return [id, cell(...state), cell(run.rig ?? ""), cell(counts || `${run.tests} ${run.tests === 1 ? "test" : "tests"}`), cell(run.owner), cell(time(run.created)), cell(took(run))];
}

async function ask(what) {
  const answer = await fetch("api/" + what, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

async function show() {
  const live = document.getElementById("live");
  try {
    const [rigs, leases, runs] = await Promise.all([ask("rigs"), ask("leases"), ask("runs")]);
    fill("rigs", rigs.rigs.map(rigRow), 6, "No rig that this page may show.");
    fill("leases", leases.leases.map(leaseRow), 5, "No lease holds a rig or waits for one.");
    const newest = new Set(runs.runs.map((run) => run.id));
    older = older.filter((run) => !newest.has(run.id));
    if (older.length === 0) after = runs.after;
    fill("runs", [...runs.runs, ...older].map(runRow), 7, "No runs yet: verbatim run --rig RIG");
    document.getElementById("more").hidden = after === "";
    live.className = "";
    live.textContent = "live";
  } catch (error) {
    live.className = "lost";
    live.textContent = `the daemon does not answer: ${error.message}`;
  }
}

async function more() {
  const runs = await ask("runs?after=" + after);
  older.push(...runs.runs);
  after = runs.after;
  await show();
}

async function live() {
  for (;;) {
    if (!document.hidden) await show();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

document.getElementById("more").addEventListener("click", more);
live();
